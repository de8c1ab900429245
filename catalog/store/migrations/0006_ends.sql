-- A run that was cancelled is running no more.
COMMENT ON COLUMN runs.status IS 'What became of the run: running, done, failed or cancelled.';

-- A run whose weights were put back is the newest of its name again.
COMMENT ON COLUMN runs.finished_at IS 'When it ended, or was last planned in place of a later run.';
