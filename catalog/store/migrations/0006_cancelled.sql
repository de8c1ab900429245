-- A run that was cancelled is running no more.
COMMENT ON COLUMN runs.status IS 'What became of the run: running, done, failed or cancelled.';
