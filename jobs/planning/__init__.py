"""Before a scan: what is to be done, on what, and whether it can be."""
