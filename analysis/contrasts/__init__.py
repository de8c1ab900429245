"""What differs: twins with and without shortcuts, checkpoints, datasets, and two dates."""
