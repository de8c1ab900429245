"""Plan, schedule and run many jobs anywhere, again. Read ``jobs/run.py`` first."""
