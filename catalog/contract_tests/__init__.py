"""What every dataset kind and model source keeps, as test classes to inherit; they need pytest."""
