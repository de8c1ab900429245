"""Pictures in files, archives and memory, and how they are decoded."""
