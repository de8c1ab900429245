-- Flags that mean something under the run's ridge in layer_scores too, which signatures reads.
CREATE OR REPLACE VIEW layer_scores AS
SELECT batch_scores.* REPLACE (
  list_filter(flags, lambda flag: flag <> 'ridge' OR ridge = 'absolute') AS flags),
  runs.architecture, runs.source, runs.family, runs.checkpoint, runs.dataset, runs.pooling,
  runs.status AS run_status
FROM batch_scores JOIN runs USING (run_id);

COMMENT ON VIEW layer_scores IS 'One row an activation site and batch of any run, with what was measured.';
COMMENT ON COLUMN layer_scores."run_id" IS 'The run: one architecture, checkpoint, dataset, settings.';
COMMENT ON COLUMN layer_scores."batch" IS 'Which batch of images of the run, counting from 0.';
COMMENT ON COLUMN layer_scores."site" IS 'Which activation call, counting from 0 in execution order.';
COMMENT ON COLUMN layer_scores."site_name" IS 'Module path and call number, such as layer1.0.relu#2.';
COMMENT ON COLUMN layer_scores."activation" IS 'The activation function, such as relu.';
COMMENT ON COLUMN layer_scores."call" IS 'Which call of this activation at this path, counting from 1.';
COMMENT ON COLUMN layer_scores."graph_depth" IS 'Activations on the longest path to here, this one included.';
COMMENT ON COLUMN layer_scores."role" IS 'main, or gate where the output only scales another value.';
COMMENT ON COLUMN layer_scores."repeat" IS 'Which of its block''s activation calls, counting from 1.';
COMMENT ON COLUMN layer_scores."layout" IS 'Meaning of the tensor''s axes, such as N,C,*,*.';
COMMENT ON COLUMN layer_scores."spatial" IS 'Sizes of the axes pooled, such as 56x56; else empty.';
COMMENT ON COLUMN layer_scores."channels" IS 'Channels of the site: columns of the pooled pair.';
COMMENT ON COLUMN layer_scores."images" IS 'Images of the score: rows of the pooled pair.';
COMMENT ON COLUMN layer_scores."affinity" IS 'The affinity score in [0, 1]; NULL unless status is ok.';
COMMENT ON COLUMN layer_scores."status" IS 'ok, constant, nonfinite, out_of_range or failed.';
COMMENT ON COLUMN layer_scores."reason" IS 'Why there is no score, in a sentence.';
COMMENT ON COLUMN layer_scores."raw_affinity" IS 'What the formula gave, also where it left [0, 1].';
COMMENT ON COLUMN layer_scores."affinity_plain" IS 'The affinity score without shrinkage, in [0, 1].';
COMMENT ON COLUMN layer_scores."cka" IS 'Linear CKA of input and output, biased as published, in [0, 1].';
COMMENT ON COLUMN layer_scores."cka_debiased" IS 'Linear CKA from unbiased estimates, in [-1, 1].';
COMMENT ON COLUMN layer_scores."norm" IS 'Frobenius norm of input minus output; grows as sqrt(n c).';
COMMENT ON COLUMN layer_scores."norm_per_element" IS 'The norm over sqrt(n c).';
COMMENT ON COLUMN layer_scores."norm_relative" IS 'The norm over the input''s own norm.';
COMMENT ON COLUMN layer_scores."sparsity_before" IS 'Fraction of unpooled input values within 1e-3 of zero.';
COMMENT ON COLUMN layer_scores."sparsity_after" IS 'Fraction of unpooled output values within 1e-3 of zero.';
COMMENT ON COLUMN layer_scores."sparsity_change" IS 'Sparsity after minus before, in [-1, 1].';
COMMENT ON COLUMN layer_scores."entropy_before" IS 'Mean histogram entropy of inputs, plus log c, in nats.';
COMMENT ON COLUMN layer_scores."entropy_after" IS 'Mean histogram entropy of outputs, plus log c, in nats.';
COMMENT ON COLUMN layer_scores."entropy_change" IS 'Entropy after minus before, in nats.';
COMMENT ON COLUMN layer_scores."r2" IS 'R2 of a linear fit on the images it was fitted on; 1 where c >= n - 1.';
COMMENT ON COLUMN layer_scores."r2_heldout" IS 'R2 of a ridge fit on images left out of it one by one; at most 1.';
COMMENT ON COLUMN layer_scores."input_variance" IS 'Mean over channels of the pooled input''s variance.';
COMMENT ON COLUMN layer_scores."output_variance" IS 'Mean over channels of the pooled output''s variance.';
COMMENT ON COLUMN layer_scores."constant_fraction" IS 'Fraction of channels constant over the images.';
COMMENT ON COLUMN layer_scores."flags" IS 'What to know: constant, dead, nonfinite, ridge, rounding, few_images.';
COMMENT ON COLUMN layer_scores."notes" IS 'Why a metric has no value: its name and a reason, one each.';
COMMENT ON COLUMN layer_scores."architecture" IS 'The network''s name within its source.';
COMMENT ON COLUMN layer_scores."source" IS 'Where the architecture comes from, such as torchvision.';
COMMENT ON COLUMN layer_scores."family" IS 'The architecture''s family, such as ResNet.';
COMMENT ON COLUMN layer_scores."checkpoint" IS 'The weights as named: init:0, bundled, file:NAME.';
COMMENT ON COLUMN layer_scores."dataset" IS 'The images'' name, such as digits or folder:NAME.';
COMMENT ON COLUMN layer_scores."pooling" IS 'From tensor to matrix: mean, pre, sum, flatten or public_code.';
COMMENT ON COLUMN layer_scores."run_status" IS 'What became of the run: running, done or failed.';
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
  FROM layer_scores WHERE run_status = 'done' GROUP BY run_id, site
)
SELECT run_id, "architecture", "source", "family", "family_group", "year", "checkpoint", "dataset", "pooling", "images_per_score", "shrinkage", "ridge", site,
  "site_name", "activation", "graph_depth", "role", "repeat", "layout", "spatial", "channels",
  site / greatest(max(site) OVER (PARTITION BY run_id), 1) AS relative_depth,
  affinity, affinity_std, affinity_std / sqrt(spread.batches) AS affinity_se,
  spread.batches AS batches, flags,
  "affinity_plain", "cka", "cka_debiased", "norm", "norm_per_element", "norm_relative", "sparsity_before", "sparsity_after", "sparsity_change", "entropy_before", "entropy_after", "entropy_change", "r2", "r2_heldout"
FROM runs JOIN spread USING (run_id);

COMMENT ON VIEW signatures IS 'One row a site of a finished run: its metrics over all batches that have a value.';
COMMENT ON COLUMN signatures."run_id" IS 'The run: one architecture, checkpoint, dataset, settings.';
COMMENT ON COLUMN signatures."architecture" IS 'The network''s name within its source.';
COMMENT ON COLUMN signatures."source" IS 'Where the architecture comes from, such as torchvision.';
COMMENT ON COLUMN signatures."family" IS 'The architecture''s family, such as ResNet.';
COMMENT ON COLUMN signatures."family_group" IS 'The paper''s group of families, such as residual.';
COMMENT ON COLUMN signatures."year" IS 'Year in which the architecture was published.';
COMMENT ON COLUMN signatures."checkpoint" IS 'The weights as named: init:0, bundled, file:NAME.';
COMMENT ON COLUMN signatures."dataset" IS 'The images'' name, such as digits or folder:NAME.';
COMMENT ON COLUMN signatures."pooling" IS 'From tensor to matrix: mean, pre, sum, flatten or public_code.';
COMMENT ON COLUMN signatures."images_per_score" IS 'Images in one batch score.';
COMMENT ON COLUMN signatures."shrinkage" IS 'Covariance estimator: ledoit-wolf or none.';
COMMENT ON COLUMN signatures."ridge" IS 'Whether the ridge is absolute or relative to the variance.';
COMMENT ON COLUMN signatures."site" IS 'Which activation call, counting from 0 in execution order.';
COMMENT ON COLUMN signatures."site_name" IS 'Module path and call number, such as layer1.0.relu#2.';
COMMENT ON COLUMN signatures."activation" IS 'The activation function, such as relu.';
COMMENT ON COLUMN signatures."graph_depth" IS 'Activations on the longest path to here, this one included.';
COMMENT ON COLUMN signatures."role" IS 'main, or gate where the output only scales another value.';
COMMENT ON COLUMN signatures."repeat" IS 'Which of its block''s activation calls, counting from 1.';
COMMENT ON COLUMN signatures."layout" IS 'Meaning of the tensor''s axes, such as N,C,*,*.';
COMMENT ON COLUMN signatures."spatial" IS 'Sizes of the axes pooled, such as 56x56; else empty.';
COMMENT ON COLUMN signatures."channels" IS 'Channels of the site: columns of the pooled pair.';
COMMENT ON COLUMN signatures."relative_depth" IS 'The site over its run''s last; 0 for the only one.';
COMMENT ON COLUMN signatures."affinity" IS 'Mean affinity over the batches with a score; NULL if none.';
COMMENT ON COLUMN signatures."affinity_std" IS 'Sample deviation (batches - 1); NULL for one batch.';
COMMENT ON COLUMN signatures."affinity_se" IS 'Standard error: deviation over the root of batches.';
COMMENT ON COLUMN signatures."batches" IS 'Batches with a score at this site.';
COMMENT ON COLUMN signatures."flags" IS 'Those of any of its batches. What to know: constant, dead, nonfinite, ridge, rounding, few_images.';
COMMENT ON COLUMN signatures."affinity_plain" IS 'Mean over batches. The affinity score without shrinkage, in [0, 1].';
COMMENT ON COLUMN signatures."cka" IS 'Mean over batches. Linear CKA of input and output, biased as published, in [0, 1].';
COMMENT ON COLUMN signatures."cka_debiased" IS 'Mean over batches. Linear CKA from unbiased estimates, in [-1, 1].';
COMMENT ON COLUMN signatures."norm" IS 'Mean over batches. Frobenius norm of input minus output; grows as sqrt(n c).';
COMMENT ON COLUMN signatures."norm_per_element" IS 'Mean over batches. The norm over sqrt(n c).';
COMMENT ON COLUMN signatures."norm_relative" IS 'Mean over batches. The norm over the input''s own norm.';
COMMENT ON COLUMN signatures."sparsity_before" IS 'Mean over batches. Fraction of unpooled input values within 1e-3 of zero.';
COMMENT ON COLUMN signatures."sparsity_after" IS 'Mean over batches. Fraction of unpooled output values within 1e-3 of zero.';
COMMENT ON COLUMN signatures."sparsity_change" IS 'Mean over batches. Sparsity after minus before, in [-1, 1].';
COMMENT ON COLUMN signatures."entropy_before" IS 'Mean over batches. Mean histogram entropy of inputs, plus log c, in nats.';
COMMENT ON COLUMN signatures."entropy_after" IS 'Mean over batches. Mean histogram entropy of outputs, plus log c, in nats.';
COMMENT ON COLUMN signatures."entropy_change" IS 'Mean over batches. Entropy after minus before, in nats.';
COMMENT ON COLUMN signatures."r2" IS 'Mean over batches. R2 of a linear fit on the images it was fitted on; 1 where c >= n - 1.';
COMMENT ON COLUMN signatures."r2_heldout" IS 'Mean over batches. R2 of a ridge fit on images left out of it one by one; at most 1.';
