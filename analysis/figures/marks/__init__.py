"""What marks of several figures share: depth, colour, hollow ones, and which models are shown."""
