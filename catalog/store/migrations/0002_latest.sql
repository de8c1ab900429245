-- Flags and settings in signatures; views of the latest runs that compare, by site and by model.
COMMENT ON COLUMN batch_scores.flags IS 'What to know: constant, dead, nonfinite, ridge, rounding, few_images.';
