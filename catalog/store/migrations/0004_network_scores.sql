-- What belongs to a measure of a whole network beside its value.
ALTER TABLE network_scores ADD COLUMN standard_error DOUBLE;
ALTER TABLE network_scores ADD COLUMN samples BIGINT;
ALTER TABLE network_scores ADD COLUMN details VARCHAR;
ALTER TABLE network_scores ADD COLUMN version INTEGER;
COMMENT ON TABLE network_scores IS 'One row a run and measure of the whole network, unique in both.';
COMMENT ON COLUMN network_scores.measure IS 'The measure''s name, such as path_length.';
COMMENT ON COLUMN network_scores.status IS 'What became of it: ok, or undefined where there is no value.';
COMMENT ON COLUMN network_scores.standard_error IS 'Of the value; NULL where it is exact, or unknown.';
COMMENT ON COLUMN network_scores.samples IS 'Images, lines or pairs it is estimated from; NULL for none.';
COMMENT ON COLUMN network_scores.details IS 'Conventions, settings and what else belongs to it, as JSON.';
COMMENT ON COLUMN network_scores.version IS 'Of the measure; others are computed again where it is asked for.';
