"""What every runner keeps, as a test class to inherit; it needs pytest."""
