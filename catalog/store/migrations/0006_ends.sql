-- A run that was cancelled is running no more.
COMMENT ON COLUMN runs.status IS 'What became of the run: running, done, failed or cancelled.';

-- A run whose weights were put back is the newest of its name again.
COMMENT ON COLUMN runs.finished_at IS 'When it ended, or was last planned in place of a later run.';

-- Labels may be there and fit no output.
COMMENT ON COLUMN runs.measured_top1 IS 'Fraction right; NULL unless all images have labels that fit.';
COMMENT ON COLUMN runs.measured_top5 IS 'Fraction right within five guesses; NULL where the other is.';
