"""During a scan: which job goes where, and what is recorded of it."""
