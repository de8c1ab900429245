"""The registry: surveys, jobs, attempts and schedules in SQLite or PostgreSQL."""
