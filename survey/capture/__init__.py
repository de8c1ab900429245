"""The capture of a forward pass: its activation calls, their axes and pooled values."""
