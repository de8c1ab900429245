-- The first schema of the signature store.
CREATE TABLE runs (
  run_id VARCHAR,
  job_key VARCHAR,
  attempt INTEGER,
  architecture VARCHAR,
  source VARCHAR,
  family VARCHAR,
  family_group VARCHAR,
  year INTEGER,
  checkpoint VARCHAR,
  checkpoint_sha256 VARCHAR,
  dataset VARCHAR,
  dataset_fingerprint VARCHAR,
  status VARCHAR,
  stage VARCHAR,
  error VARCHAR,
  traceback VARCHAR,
  measured_top1 DOUBLE,
  measured_top5 DOUBLE,
  reported_top1 DOUBLE,
  reported_protocol VARCHAR,
  reported_dataset VARCHAR,
  expected_top1 DOUBLE,
  expected_source VARCHAR,
  suspicion VARCHAR,
  images BIGINT,
  skipped_images BIGINT,
  skipped_names VARCHAR[],
  batches INTEGER,
  sites INTEGER,
  depth INTEGER,
  parameters BIGINT,
  gflops DOUBLE,
  settings VARCHAR,
  images_per_score INTEGER,
  micro_batch INTEGER,
  shrinkage VARCHAR,
  ridge VARCHAR,
  pooling VARCHAR,
  precision DOUBLE,
  least_batches INTEGER,
  transform VARCHAR,
  order_seed INTEGER,
  reached_precision DOUBLE,
  parts INTEGER,
  device VARCHAR,
  device_name VARCHAR,
  dtype VARCHAR,
  threads INTEGER,
  hostname VARCHAR,
  python_version VARCHAR,
  torch_version VARCHAR,
  torchvision_version VARCHAR,
  numpy_version VARCHAR,
  scipy_version VARCHAR,
  survey_version VARCHAR,
  measuring_version INTEGER,
  dropped_keys VARCHAR[],
  started_at TIMESTAMPTZ,
  finished_at TIMESTAMPTZ,
  seconds DOUBLE,
  peak_memory BIGINT,
  PRIMARY KEY (run_id)
);

COMMENT ON TABLE runs IS 'One row a run: what was measured, how, with what, and what became of it.';
COMMENT ON COLUMN runs.run_id IS 'The run: one architecture, checkpoint, dataset, settings.';
COMMENT ON COLUMN runs.job_key IS 'Hash of everything that determines the run''s numbers.';
COMMENT ON COLUMN runs.attempt IS 'Which attempt at the run wrote this row, counting from 1.';
COMMENT ON COLUMN runs.architecture IS 'The network''s name within its source.';
COMMENT ON COLUMN runs.source IS 'Where the architecture comes from, such as torchvision.';
COMMENT ON COLUMN runs.family IS 'The architecture''s family, such as ResNet.';
COMMENT ON COLUMN runs.family_group IS 'The paper''s group of families, such as residual.';
COMMENT ON COLUMN runs.year IS 'Year in which the architecture was published.';
COMMENT ON COLUMN runs.checkpoint IS 'The weights as named: init:0, bundled, file:NAME.';
COMMENT ON COLUMN runs.checkpoint_sha256 IS 'The sha256 of the file of weights, if there is one.';
COMMENT ON COLUMN runs.dataset IS 'The images'' name, such as digits or folder:NAME.';
COMMENT ON COLUMN runs.dataset_fingerprint IS 'The sha256 over images, names, labels and order.';
COMMENT ON COLUMN runs.status IS 'What became of the run: running, done or failed.';
COMMENT ON COLUMN runs.stage IS 'The stage a failed run failed in.';
COMMENT ON COLUMN runs.error IS 'What went wrong, in a sentence.';
COMMENT ON COLUMN runs.traceback IS 'Where in the program a failed run failed.';
COMMENT ON COLUMN runs.measured_top1 IS 'Fraction right over every image; NULL without labels.';
COMMENT ON COLUMN runs.measured_top5 IS 'Fraction right within five guesses; NULL without labels.';
COMMENT ON COLUMN runs.reported_top1 IS 'Fraction right that the weights were published with.';
COMMENT ON COLUMN runs.reported_protocol IS 'What classified then, such as linear.';
COMMENT ON COLUMN runs.reported_dataset IS 'The dataset it was reported for.';
COMMENT ON COLUMN runs.expected_top1 IS 'What measured_top1 is held against; NULL if nothing.';
COMMENT ON COLUMN runs.expected_source IS 'Who says so: declared, or who reported it.';
COMMENT ON COLUMN runs.suspicion IS 'Why the run''s accuracy is suspect; NULL where it is not.';
COMMENT ON COLUMN runs.images IS 'Images measured, those of a last partial batch included.';
COMMENT ON COLUMN runs.skipped_images IS 'Images of the dataset that could not be decoded.';
COMMENT ON COLUMN runs.skipped_names IS 'The names of the images that could not be decoded.';
COMMENT ON COLUMN runs.batches IS 'Batches measured, a last partial one included.';
COMMENT ON COLUMN runs.sites IS 'Activation sites of the network.';
COMMENT ON COLUMN runs.depth IS 'Layers with weights on the longest path through the network.';
COMMENT ON COLUMN runs.parameters IS 'Parameters of the network.';
COMMENT ON COLUMN runs.gflops IS 'Billions of multiply-adds of one image''s forward pass.';
COMMENT ON COLUMN runs.settings IS 'The measuring settings, as JSON.';
COMMENT ON COLUMN runs.images_per_score IS 'Images in one batch score.';
COMMENT ON COLUMN runs.micro_batch IS 'Images in one forward pass.';
COMMENT ON COLUMN runs.shrinkage IS 'Covariance estimator: ledoit-wolf or none.';
COMMENT ON COLUMN runs.ridge IS 'Whether the ridge is absolute or relative to the variance.';
COMMENT ON COLUMN runs.pooling IS 'From tensor to matrix: mean, pre, sum, flatten or public_code.';
COMMENT ON COLUMN runs.precision IS 'Standard error to stop at; NULL where all is read.';
COMMENT ON COLUMN runs.least_batches IS 'Batches before a precision counts as reached.';
COMMENT ON COLUMN runs.transform IS 'How images became the network''s input, as JSON.';
COMMENT ON COLUMN runs.order_seed IS 'Seed of the order of the images.';
COMMENT ON COLUMN runs.reached_precision IS 'Largest standard error of a site''s mean affinity.';
COMMENT ON COLUMN runs.parts IS 'Parts the run was split into, each measured by one worker.';
COMMENT ON COLUMN runs.device IS 'The device that measured, such as cpu or cuda:0.';
COMMENT ON COLUMN runs.device_name IS 'The device''s model name.';
COMMENT ON COLUMN runs.dtype IS 'Number format of weights and activations.';
COMMENT ON COLUMN runs.threads IS 'Threads of one forward pass on a CPU.';
COMMENT ON COLUMN runs.hostname IS 'The machine that measured.';
COMMENT ON COLUMN runs.python_version IS 'Python''s version.';
COMMENT ON COLUMN runs.torch_version IS 'torch''s version.';
COMMENT ON COLUMN runs.torchvision_version IS 'torchvision''s version.';
COMMENT ON COLUMN runs.numpy_version IS 'numpy''s version.';
COMMENT ON COLUMN runs.scipy_version IS 'scipy''s version.';
COMMENT ON COLUMN runs.survey_version IS 'This program''s version.';
COMMENT ON COLUMN runs.measuring_version IS 'Version of the measuring; a change moves numbers.';
COMMENT ON COLUMN runs.dropped_keys IS 'Entries of the checkpoint that were not loaded.';
COMMENT ON COLUMN runs.started_at IS 'When the attempt began.';
COMMENT ON COLUMN runs.finished_at IS 'When the run ended, done or failed.';
COMMENT ON COLUMN runs.seconds IS 'Seconds of measuring, over all attempts that were kept.';
COMMENT ON COLUMN runs.peak_memory IS 'Most bytes of memory that a worker held.';
CREATE TABLE batches (
  run_id VARCHAR,
  batch INTEGER,
  attempt INTEGER,
  images BIGINT,
  end_position BIGINT,
  skipped_images BIGINT,
  skipped_names VARCHAR[],
  labelled BIGINT,
  top1_hits BIGINT,
  top5_hits BIGINT,
  micro_batch INTEGER,
  threads INTEGER,
  device_name VARCHAR,
  hostname VARCHAR,
  seconds DOUBLE,
  recorded_at TIMESTAMPTZ,
  PRIMARY KEY (run_id, batch)
);

COMMENT ON TABLE batches IS 'One row a batch of images of a run: its accuracy counts and where to go on after it.';
COMMENT ON COLUMN batches.run_id IS 'The run: one architecture, checkpoint, dataset, settings.';
COMMENT ON COLUMN batches.batch IS 'Which batch of images of the run, counting from 0.';
COMMENT ON COLUMN batches.attempt IS 'Which attempt at the run measured it, counting from 1.';
COMMENT ON COLUMN batches.images IS 'Images in the batch; a last, partial one is not scored.';
COMMENT ON COLUMN batches.end_position IS 'Place in the dataset''s order where the next batch begins.';
COMMENT ON COLUMN batches.skipped_images IS 'Images passed over because they cannot be decoded.';
COMMENT ON COLUMN batches.skipped_names IS 'The names of the images passed over.';
COMMENT ON COLUMN batches.labelled IS 'Images whose label fits the network''s outputs.';
COMMENT ON COLUMN batches.top1_hits IS 'Labelled images whose label is the largest output.';
COMMENT ON COLUMN batches.top5_hits IS 'Labelled images whose label is among the five largest.';
COMMENT ON COLUMN batches.micro_batch IS 'Images in one forward pass of this batch.';
COMMENT ON COLUMN batches.threads IS 'Threads of one forward pass of this batch on a CPU.';
COMMENT ON COLUMN batches.device_name IS 'The model name of the device that measured the batch.';
COMMENT ON COLUMN batches.hostname IS 'The machine that measured the batch.';
COMMENT ON COLUMN batches.seconds IS 'Seconds from the first image in to the last score out.';
COMMENT ON COLUMN batches.recorded_at IS 'When the batch was made durable.';
CREATE TABLE batch_scores (
  run_id VARCHAR,
  batch INTEGER,
  site INTEGER,
  site_name VARCHAR,
  activation VARCHAR,
  call INTEGER,
  graph_depth INTEGER,
  role VARCHAR,
  repeat INTEGER,
  layout VARCHAR,
  spatial VARCHAR,
  channels INTEGER,
  images INTEGER,
  affinity DOUBLE,
  status VARCHAR,
  reason VARCHAR,
  raw_affinity DOUBLE,
  affinity_plain DOUBLE,
  cka DOUBLE,
  cka_debiased DOUBLE,
  norm DOUBLE,
  norm_per_element DOUBLE,
  norm_relative DOUBLE,
  sparsity_before DOUBLE,
  sparsity_after DOUBLE,
  sparsity_change DOUBLE,
  entropy_before DOUBLE,
  entropy_after DOUBLE,
  entropy_change DOUBLE,
  r2 DOUBLE,
  r2_heldout DOUBLE,
  input_variance DOUBLE,
  output_variance DOUBLE,
  constant_fraction DOUBLE,
  flags VARCHAR[],
  notes VARCHAR[]
);

COMMENT ON TABLE batch_scores IS 'One row an activation site and batch, unique in (run_id, batch, site).';
COMMENT ON COLUMN batch_scores.run_id IS 'The run: one architecture, checkpoint, dataset, settings.';
COMMENT ON COLUMN batch_scores.batch IS 'Which batch of images of the run, counting from 0.';
COMMENT ON COLUMN batch_scores.site IS 'Which activation call, counting from 0 in execution order.';
COMMENT ON COLUMN batch_scores.site_name IS 'Module path and call number, such as layer1.0.relu#2.';
COMMENT ON COLUMN batch_scores.activation IS 'The activation function, such as relu.';
COMMENT ON COLUMN batch_scores.call IS 'Which call of this activation at this path, counting from 1.';
COMMENT ON COLUMN batch_scores.graph_depth IS 'Activations on the longest path to here, this one included.';
COMMENT ON COLUMN batch_scores.role IS 'main, or gate where the output only scales another value.';
COMMENT ON COLUMN batch_scores.repeat IS 'Which of its block''s activation calls, counting from 1.';
COMMENT ON COLUMN batch_scores.layout IS 'Meaning of the tensor''s axes, such as N,C,*,*.';
COMMENT ON COLUMN batch_scores.spatial IS 'Sizes of the axes pooled, such as 56x56; else empty.';
COMMENT ON COLUMN batch_scores.channels IS 'Channels of the site: columns of the pooled pair.';
COMMENT ON COLUMN batch_scores.images IS 'Images of the score: rows of the pooled pair.';
COMMENT ON COLUMN batch_scores.affinity IS 'The affinity score in [0, 1]; NULL unless status is ok.';
COMMENT ON COLUMN batch_scores.status IS 'ok, constant, nonfinite, out_of_range or failed.';
COMMENT ON COLUMN batch_scores.reason IS 'Why there is no score, in a sentence.';
COMMENT ON COLUMN batch_scores.raw_affinity IS 'What the formula gave, also where it left [0, 1].';
COMMENT ON COLUMN batch_scores.affinity_plain IS 'The affinity score without shrinkage, in [0, 1].';
COMMENT ON COLUMN batch_scores.cka IS 'Linear CKA of input and output, biased as published, in [0, 1].';
COMMENT ON COLUMN batch_scores.cka_debiased IS 'Linear CKA from unbiased estimates, in [-1, 1].';
COMMENT ON COLUMN batch_scores.norm IS 'Frobenius norm of input minus output; grows as sqrt(n c).';
COMMENT ON COLUMN batch_scores.norm_per_element IS 'The norm over sqrt(n c).';
COMMENT ON COLUMN batch_scores.norm_relative IS 'The norm over the input''s own norm.';
COMMENT ON COLUMN batch_scores.sparsity_before IS 'Fraction of unpooled input values within 1e-3 of zero.';
COMMENT ON COLUMN batch_scores.sparsity_after IS 'Fraction of unpooled output values within 1e-3 of zero.';
COMMENT ON COLUMN batch_scores.sparsity_change IS 'Sparsity after minus before, in [-1, 1].';
COMMENT ON COLUMN batch_scores.entropy_before IS 'Mean histogram entropy of inputs, plus log c, in nats.';
COMMENT ON COLUMN batch_scores.entropy_after IS 'Mean histogram entropy of outputs, plus log c, in nats.';
COMMENT ON COLUMN batch_scores.entropy_change IS 'Entropy after minus before, in nats.';
COMMENT ON COLUMN batch_scores.r2 IS 'R2 of a linear fit on the images it was fitted on; 1 where c >= n - 1.';
COMMENT ON COLUMN batch_scores.r2_heldout IS 'R2 of a ridge fit on images left out of it one by one; at most 1.';
COMMENT ON COLUMN batch_scores.input_variance IS 'Mean over channels of the pooled input''s variance.';
COMMENT ON COLUMN batch_scores.output_variance IS 'Mean over channels of the pooled output''s variance.';
COMMENT ON COLUMN batch_scores.constant_fraction IS 'Fraction of channels constant over the images.';
COMMENT ON COLUMN batch_scores.flags IS 'What to know: constant, dead, nonfinite, few_images, ridge.';
COMMENT ON COLUMN batch_scores.notes IS 'Why a metric has no value: its name and a reason, one each.';
CREATE TABLE network_scores (
  run_id VARCHAR,
  measure VARCHAR,
  value DOUBLE,
  status VARCHAR,
  reason VARCHAR,
  PRIMARY KEY (run_id, measure)
);

COMMENT ON TABLE network_scores IS 'One row a measure of a whole network.';
COMMENT ON COLUMN network_scores.run_id IS 'The run: one architecture, checkpoint, dataset, settings.';
COMMENT ON COLUMN network_scores.measure IS 'The measure''s name.';
COMMENT ON COLUMN network_scores.value IS 'Its value; NULL unless status is ok.';
COMMENT ON COLUMN network_scores.status IS 'What became of it: ok, or why there is none.';
COMMENT ON COLUMN network_scores.reason IS 'Why there is no value, in a sentence.';
CREATE TABLE segments (
  name VARCHAR,
  merged_at TIMESTAMPTZ,
  PRIMARY KEY (name)
);

COMMENT ON TABLE segments IS 'One row a spool segment already merged, so that each is merged at most once.';
COMMENT ON COLUMN segments.name IS 'The segment''s file name.';
COMMENT ON COLUMN segments.merged_at IS 'When it was merged.';
CREATE TABLE migrations (
  version INTEGER,
  name VARCHAR,
  applied_at TIMESTAMPTZ,
  PRIMARY KEY (version)
);

COMMENT ON TABLE migrations IS 'One row a numbered change of this schema that was applied.';
COMMENT ON COLUMN migrations.version IS 'Its number, counting from 1.';
COMMENT ON COLUMN migrations.name IS 'Its file''s name.';
COMMENT ON COLUMN migrations.applied_at IS 'When it was applied.';
