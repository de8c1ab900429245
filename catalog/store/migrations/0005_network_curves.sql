-- Measures of a whole network that are a curve, and its points.
CREATE TABLE network_curves (
  run_id VARCHAR,
  measure VARCHAR,
  point INTEGER,
  x DOUBLE,
  y DOUBLE,
  standard_error DOUBLE
);

COMMENT ON TABLE network_curves IS 'One row a point of a measure that is a curve, which come and go with its row in network_scores.';
COMMENT ON COLUMN network_curves.run_id IS 'The run: one architecture, checkpoint, dataset, settings.';
COMMENT ON COLUMN network_curves.measure IS 'The measure''s name, such as path_length.';
COMMENT ON COLUMN network_curves.point IS 'Which point of the curve, counting from 0.';
COMMENT ON COLUMN network_curves.x IS 'Where it is; the measure says of what.';
COMMENT ON COLUMN network_curves.y IS 'The curve''s value there; NULL where there is none.';
COMMENT ON COLUMN network_curves.standard_error IS 'Of y; NULL where it is exact, or unknown.';
