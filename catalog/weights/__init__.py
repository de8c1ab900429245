"""Files of weights: ``reading`` them without running code, and ``fitting`` them to a network."""
