-- Flags and settings in signatures; the latest runs that compare, by site and by model.
COMMENT ON COLUMN batch_scores.flags IS 'What to know: constant, dead, nonfinite, ridge, rounding, few_images.';
COMMENT ON COLUMN layer_scores.flags IS 'What to know: constant, dead, nonfinite, ridge, rounding, few_images.';
CREATE OR REPLACE VIEW signatures AS
WITH spread AS (
  SELECT run_id, site,
    any_value("site_name") AS "site_name",
    any_value("activation") AS "activation",
    any_value("graph_depth") AS "graph_depth",
    any_value("role") AS "role",
    any_value("repeat") AS "repeat",
    any_value("layout") AS "layout",
    any_value("spatial") AS "spatial",
    any_value("channels") AS "channels",
    avg(affinity) AS affinity, stddev_samp(affinity) AS affinity_std, count(affinity) AS batches,
    list_sort(list_distinct(flatten(list(flags)))) AS flags,
    avg("affinity_plain") AS "affinity_plain",
    avg("cka") AS "cka",
    avg("cka_debiased") AS "cka_debiased",
    avg("norm") AS "norm",
    avg("norm_per_element") AS "norm_per_element",
    avg("norm_relative") AS "norm_relative",
    avg("sparsity_before") AS "sparsity_before",
    avg("sparsity_after") AS "sparsity_after",
    avg("sparsity_change") AS "sparsity_change",
    avg("entropy_before") AS "entropy_before",
    avg("entropy_after") AS "entropy_after",
    avg("entropy_change") AS "entropy_change",
    avg("r2") AS "r2",
    avg("r2_heldout") AS "r2_heldout"
  FROM batch_scores GROUP BY run_id, site
)
SELECT run_id, "architecture", "source", "family", "family_group", "year", "checkpoint", "dataset", "pooling", "images_per_score", "shrinkage", "ridge", site,
  "site_name", "activation", "graph_depth", "role", "repeat", "layout", "spatial", "channels",
  site / greatest(max(site) OVER (PARTITION BY run_id), 1) AS relative_depth,
  affinity, affinity_std, affinity_std / sqrt(spread.batches) AS affinity_se,
  spread.batches AS batches, list_filter(flags, lambda flag: flag <> 'ridge' OR ridge = 'absolute') AS flags,
  "affinity_plain", "cka", "cka_debiased", "norm", "norm_per_element", "norm_relative", "sparsity_before", "sparsity_after", "sparsity_change", "entropy_before", "entropy_after", "entropy_change", "r2", "r2_heldout"
FROM runs JOIN spread USING (run_id) WHERE runs.status = 'done';

COMMENT ON VIEW signatures IS 'One row a site of a finished run: its metrics over all batches that have a value.';
COMMENT ON COLUMN signatures.run_id IS 'The run: one architecture, checkpoint, dataset, settings.';
COMMENT ON COLUMN signatures.architecture IS 'The network''s name within its source.';
COMMENT ON COLUMN signatures.source IS 'Where the architecture comes from, such as torchvision.';
COMMENT ON COLUMN signatures.family IS 'The architecture''s family, such as ResNet.';
COMMENT ON COLUMN signatures.family_group IS 'The paper''s group of families, such as residual.';
COMMENT ON COLUMN signatures.year IS 'Year in which the architecture was published.';
COMMENT ON COLUMN signatures.checkpoint IS 'The weights as named: init:0, bundled, file:NAME.';
COMMENT ON COLUMN signatures.dataset IS 'The images'' name, such as digits or folder:NAME.';
COMMENT ON COLUMN signatures.pooling IS 'From tensor to matrix: mean, pre, sum, flatten or public_code.';
COMMENT ON COLUMN signatures.images_per_score IS 'Images in one batch score.';
COMMENT ON COLUMN signatures.shrinkage IS 'Covariance estimator: ledoit-wolf or none.';
COMMENT ON COLUMN signatures.ridge IS 'Whether the ridge is absolute or relative to the variance.';
COMMENT ON COLUMN signatures.site IS 'Which activation call, counting from 0 in execution order.';
COMMENT ON COLUMN signatures.site_name IS 'Module path and call number, such as layer1.0.relu#2.';
COMMENT ON COLUMN signatures.activation IS 'The activation function, such as relu.';
COMMENT ON COLUMN signatures.graph_depth IS 'Activations on the longest path to here, this one included.';
COMMENT ON COLUMN signatures.role IS 'main, or gate where the output only scales another value.';
COMMENT ON COLUMN signatures.repeat IS 'Which of its block''s activation calls, counting from 1.';
COMMENT ON COLUMN signatures.layout IS 'Meaning of the tensor''s axes, such as N,C,*,*.';
COMMENT ON COLUMN signatures.spatial IS 'Sizes of the axes pooled, such as 56x56; else empty.';
COMMENT ON COLUMN signatures.channels IS 'Channels of the site: columns of the pooled pair.';
COMMENT ON COLUMN signatures.relative_depth IS 'The site over its run''s last; 0 for the only one.';
COMMENT ON COLUMN signatures.affinity IS 'Mean affinity over the batches with a score; NULL if none.';
COMMENT ON COLUMN signatures.affinity_std IS 'Sample deviation (batches - 1); NULL for one batch.';
COMMENT ON COLUMN signatures.affinity_se IS 'Standard error: deviation over the root of batches.';
COMMENT ON COLUMN signatures.batches IS 'Batches with a score at this site.';
COMMENT ON COLUMN signatures.flags IS 'Those of any of its batches. What to know: constant, dead, nonfinite, ridge, rounding, few_images.';
COMMENT ON COLUMN signatures.affinity_plain IS 'Mean over batches. The affinity score without shrinkage, in [0, 1].';
COMMENT ON COLUMN signatures.cka IS 'Mean over batches. Linear CKA of input and output, biased as published, in [0, 1].';
COMMENT ON COLUMN signatures.cka_debiased IS 'Mean over batches. Linear CKA from unbiased estimates, in [-1, 1].';
COMMENT ON COLUMN signatures.norm IS 'Mean over batches. Frobenius norm of input minus output; grows as sqrt(n c).';
COMMENT ON COLUMN signatures.norm_per_element IS 'Mean over batches. The norm over sqrt(n c).';
COMMENT ON COLUMN signatures.norm_relative IS 'Mean over batches. The norm over the input''s own norm.';
COMMENT ON COLUMN signatures.sparsity_before IS 'Mean over batches. Fraction of unpooled input values within 1e-3 of zero.';
COMMENT ON COLUMN signatures.sparsity_after IS 'Mean over batches. Fraction of unpooled output values within 1e-3 of zero.';
COMMENT ON COLUMN signatures.sparsity_change IS 'Mean over batches. Sparsity after minus before, in [-1, 1].';
COMMENT ON COLUMN signatures.entropy_before IS 'Mean over batches. Mean histogram entropy of inputs, plus log c, in nats.';
COMMENT ON COLUMN signatures.entropy_after IS 'Mean over batches. Mean histogram entropy of outputs, plus log c, in nats.';
COMMENT ON COLUMN signatures.entropy_change IS 'Mean over batches. Entropy after minus before, in nats.';
COMMENT ON COLUMN signatures.r2 IS 'Mean over batches. R2 of a linear fit on the images it was fitted on; 1 where c >= n - 1.';
COMMENT ON COLUMN signatures.r2_heldout IS 'Mean over batches. R2 of a ridge fit on images left out of it one by one; at most 1.';
CREATE VIEW latest_signatures AS
SELECT signatures.* REPLACE (
  if(list_has_any(flags, ['ridge']), NULL, signatures.affinity) AS affinity,
  if(list_has_any(flags, ['ridge']), NULL, signatures.affinity_std) AS affinity_std,
  if(list_has_any(flags, ['ridge']), NULL, signatures.affinity_se) AS affinity_se,
  if(list_has_any(flags, ['ridge']), NULL, signatures.affinity_plain) AS affinity_plain), "measured_top1", "parameters"
FROM signatures JOIN (SELECT run_id, "measured_top1", "parameters" FROM (
SELECT * FROM (
SELECT * FROM runs WHERE coalesce(ridge = (
  SELECT ridge FROM runs WHERE status = 'done' AND ridge IS NOT NULL GROUP BY ridge
  ORDER BY count(DISTINCT (source, architecture, checkpoint, dataset, pooling)) DESC, ridge = 'relative' DESC
  LIMIT 1), true)) QUALIFY row_number() OVER (
  PARTITION BY source, architecture, checkpoint, dataset, pooling
  ORDER BY status = 'done' DESC, finished_at DESC NULLS LAST, run_id DESC) = 1)) USING (run_id);

COMMENT ON VIEW latest_signatures IS 'The signatures of the latest run that compares of each model, checkpoint, dataset and pooling, without scores that the ridge decides: what analysis.signatures() gives, with those of random weights.';
COMMENT ON COLUMN latest_signatures.run_id IS 'The run: one architecture, checkpoint, dataset, settings.';
COMMENT ON COLUMN latest_signatures.architecture IS 'The network''s name within its source.';
COMMENT ON COLUMN latest_signatures.source IS 'Where the architecture comes from, such as torchvision.';
COMMENT ON COLUMN latest_signatures.family IS 'The architecture''s family, such as ResNet.';
COMMENT ON COLUMN latest_signatures.family_group IS 'The paper''s group of families, such as residual.';
COMMENT ON COLUMN latest_signatures.year IS 'Year in which the architecture was published.';
COMMENT ON COLUMN latest_signatures.checkpoint IS 'The weights as named: init:0, bundled, file:NAME.';
COMMENT ON COLUMN latest_signatures.dataset IS 'The images'' name, such as digits or folder:NAME.';
COMMENT ON COLUMN latest_signatures.pooling IS 'From tensor to matrix: mean, pre, sum, flatten or public_code.';
COMMENT ON COLUMN latest_signatures.images_per_score IS 'Images in one batch score.';
COMMENT ON COLUMN latest_signatures.shrinkage IS 'Covariance estimator: ledoit-wolf or none.';
COMMENT ON COLUMN latest_signatures.ridge IS 'Whether the ridge is absolute or relative to the variance.';
COMMENT ON COLUMN latest_signatures.site IS 'Which activation call, counting from 0 in execution order.';
COMMENT ON COLUMN latest_signatures.site_name IS 'Module path and call number, such as layer1.0.relu#2.';
COMMENT ON COLUMN latest_signatures.activation IS 'The activation function, such as relu.';
COMMENT ON COLUMN latest_signatures.graph_depth IS 'Activations on the longest path to here, this one included.';
COMMENT ON COLUMN latest_signatures.role IS 'main, or gate where the output only scales another value.';
COMMENT ON COLUMN latest_signatures.repeat IS 'Which of its block''s activation calls, counting from 1.';
COMMENT ON COLUMN latest_signatures.layout IS 'Meaning of the tensor''s axes, such as N,C,*,*.';
COMMENT ON COLUMN latest_signatures.spatial IS 'Sizes of the axes pooled, such as 56x56; else empty.';
COMMENT ON COLUMN latest_signatures.channels IS 'Channels of the site: columns of the pooled pair.';
COMMENT ON COLUMN latest_signatures.relative_depth IS 'The site over its run''s last; 0 for the only one.';
COMMENT ON COLUMN latest_signatures.affinity IS 'Mean affinity over the batches with a score; NULL if none.';
COMMENT ON COLUMN latest_signatures.affinity_std IS 'Sample deviation (batches - 1); NULL for one batch.';
COMMENT ON COLUMN latest_signatures.affinity_se IS 'Standard error: deviation over the root of batches.';
COMMENT ON COLUMN latest_signatures.batches IS 'Batches with a score at this site.';
COMMENT ON COLUMN latest_signatures.flags IS 'Those of any of its batches. What to know: constant, dead, nonfinite, ridge, rounding, few_images.';
COMMENT ON COLUMN latest_signatures.affinity_plain IS 'Mean over batches. The affinity score without shrinkage, in [0, 1].';
COMMENT ON COLUMN latest_signatures.cka IS 'Mean over batches. Linear CKA of input and output, biased as published, in [0, 1].';
COMMENT ON COLUMN latest_signatures.cka_debiased IS 'Mean over batches. Linear CKA from unbiased estimates, in [-1, 1].';
COMMENT ON COLUMN latest_signatures.norm IS 'Mean over batches. Frobenius norm of input minus output; grows as sqrt(n c).';
COMMENT ON COLUMN latest_signatures.norm_per_element IS 'Mean over batches. The norm over sqrt(n c).';
COMMENT ON COLUMN latest_signatures.norm_relative IS 'Mean over batches. The norm over the input''s own norm.';
COMMENT ON COLUMN latest_signatures.sparsity_before IS 'Mean over batches. Fraction of unpooled input values within 1e-3 of zero.';
COMMENT ON COLUMN latest_signatures.sparsity_after IS 'Mean over batches. Fraction of unpooled output values within 1e-3 of zero.';
COMMENT ON COLUMN latest_signatures.sparsity_change IS 'Mean over batches. Sparsity after minus before, in [-1, 1].';
COMMENT ON COLUMN latest_signatures.entropy_before IS 'Mean over batches. Mean histogram entropy of inputs, plus log c, in nats.';
COMMENT ON COLUMN latest_signatures.entropy_after IS 'Mean over batches. Mean histogram entropy of outputs, plus log c, in nats.';
COMMENT ON COLUMN latest_signatures.entropy_change IS 'Mean over batches. Entropy after minus before, in nats.';
COMMENT ON COLUMN latest_signatures.r2 IS 'Mean over batches. R2 of a linear fit on the images it was fitted on; 1 where c >= n - 1.';
COMMENT ON COLUMN latest_signatures.r2_heldout IS 'Mean over batches. R2 of a ridge fit on images left out of it one by one; at most 1.';
COMMENT ON COLUMN latest_signatures.measured_top1 IS 'Fraction right over every image; NULL without labels.';
COMMENT ON COLUMN latest_signatures.parameters IS 'Parameters of the network.';
CREATE VIEW models AS
WITH scored AS (
  SELECT run_id, avg(affinity) AS affinity, min(affinity) AS affinity_min,
    median(affinity) AS affinity_median, max(affinity) AS affinity_max,
    list_sort(list_distinct(flatten(list(flags)))) AS flags
  FROM latest_signatures GROUP BY run_id
)
SELECT run_id, "architecture", "source", "family", "family_group", "year", "checkpoint", "dataset", "pooling", "images_per_score", "shrinkage", "ridge", "status", "measured_top1", "reported_top1", "suspicion", "parameters", "gflops", "depth", "sites", "batches", "images", "finished_at",
  affinity, affinity_min, affinity_median, affinity_max, coalesce(flags, []) AS flags
FROM (
SELECT * FROM (
SELECT * FROM runs WHERE coalesce(ridge = (
  SELECT ridge FROM runs WHERE status = 'done' AND ridge IS NOT NULL GROUP BY ridge
  ORDER BY count(DISTINCT (source, architecture, checkpoint, dataset, pooling)) DESC, ridge = 'relative' DESC
  LIMIT 1), true)) QUALIFY row_number() OVER (
  PARTITION BY source, architecture, checkpoint, dataset, pooling
  ORDER BY status = 'done' DESC, finished_at DESC NULLS LAST, run_id DESC) = 1) LEFT JOIN scored USING (run_id);

COMMENT ON VIEW models IS 'One row a model, checkpoint, dataset and pooling: its latest run that compares, of any status where none has finished.';
COMMENT ON COLUMN models.run_id IS 'The run: one architecture, checkpoint, dataset, settings.';
COMMENT ON COLUMN models.architecture IS 'The network''s name within its source.';
COMMENT ON COLUMN models.source IS 'Where the architecture comes from, such as torchvision.';
COMMENT ON COLUMN models.family IS 'The architecture''s family, such as ResNet.';
COMMENT ON COLUMN models.family_group IS 'The paper''s group of families, such as residual.';
COMMENT ON COLUMN models.year IS 'Year in which the architecture was published.';
COMMENT ON COLUMN models.checkpoint IS 'The weights as named: init:0, bundled, file:NAME.';
COMMENT ON COLUMN models.dataset IS 'The images'' name, such as digits or folder:NAME.';
COMMENT ON COLUMN models.pooling IS 'From tensor to matrix: mean, pre, sum, flatten or public_code.';
COMMENT ON COLUMN models.images_per_score IS 'Images in one batch score.';
COMMENT ON COLUMN models.shrinkage IS 'Covariance estimator: ledoit-wolf or none.';
COMMENT ON COLUMN models.ridge IS 'Whether the ridge is absolute or relative to the variance.';
COMMENT ON COLUMN models.status IS 'What became of the run: running, done or failed.';
COMMENT ON COLUMN models.measured_top1 IS 'Fraction right over every image; NULL without labels.';
COMMENT ON COLUMN models.reported_top1 IS 'Fraction right that the weights were published with.';
COMMENT ON COLUMN models.suspicion IS 'Why the run''s accuracy is suspect; NULL where it is not.';
COMMENT ON COLUMN models.parameters IS 'Parameters of the network.';
COMMENT ON COLUMN models.gflops IS 'Billions of multiply-adds of one image''s forward pass.';
COMMENT ON COLUMN models.depth IS 'Layers with weights on the longest path through the network.';
COMMENT ON COLUMN models.sites IS 'Activation sites of the network.';
COMMENT ON COLUMN models.batches IS 'Batches measured, a last partial one included.';
COMMENT ON COLUMN models.images IS 'Images measured, those of a last partial batch included.';
COMMENT ON COLUMN models.finished_at IS 'When the run ended, done or failed.';
COMMENT ON COLUMN models.affinity IS 'Mean over the sites whose score counts.';
COMMENT ON COLUMN models.affinity_min IS 'The lowest affinity of such a site.';
COMMENT ON COLUMN models.affinity_median IS 'The median affinity of such sites.';
COMMENT ON COLUMN models.affinity_max IS 'The highest affinity of such a site.';
COMMENT ON COLUMN models.flags IS 'Those of any of its sites. What to know: constant, dead, nonfinite, ridge, rounding, few_images.';
