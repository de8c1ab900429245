"""Relations of scores: with other metrics, accuracy, years and depth."""
