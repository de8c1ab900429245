"""What exists, what is to be done, and what was measured."""
