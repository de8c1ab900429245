"""What goes with what: metrics with each other, scores with accuracy and with years."""
