"""One module a kind of dataset."""
