"""What a figure becomes when it is written to a file: its layout, its labels and its metadata."""
