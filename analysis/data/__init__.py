"""What is read from a home: frames, which runs, and what may be compared."""
