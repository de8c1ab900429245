"""Data frames of a home: reading, selecting, naming and comparing its runs."""
