"""The signature store: DuckDB, and the spool in front of it."""
