-- Named queries over the signature store. Each begins with `-- name:` and a sentence.

-- name: signatures_overview
-- One line a run: what it is, how far it came, its accuracy, and its sites' lowest to highest affinity.
WITH per_site AS (
  SELECT run_id, site, avg(affinity) AS affinity FROM batch_scores GROUP BY run_id, site
), per_run AS (
  SELECT run_id, count(*) AS sites, min(affinity) AS lowest,
    median(affinity) AS median, avg(affinity) AS mean,
    max(affinity) AS highest
  FROM per_site GROUP BY run_id
), measured AS (
  SELECT run_id, count(*) AS batches FROM batches GROUP BY run_id
)
SELECT runs.run_id, architecture, checkpoint, dataset,
  if(suspicion IS NULL, status, 'suspect') AS status, measured_top1 AS top1,
  coalesce(per_run.sites, runs.sites) AS sites, coalesce(measured.batches, 0) AS batches,
  lowest, median, mean, highest
FROM runs LEFT JOIN per_run USING (run_id) LEFT JOIN measured USING (run_id)
ORDER BY source, architecture, checkpoint, dataset, runs.run_id;

-- name: run_sites
-- One run's signature site by site ($run_id): its metrics over batches, failures, flags, notes.
WITH spread AS (
  SELECT site, any_value(site_name) AS site_name, any_value(activation) AS activation,
    any_value(role) AS role, any_value(repeat) AS repeat, any_value(graph_depth) AS graph_depth,
    any_value(layout) AS layout, any_value(spatial) AS spatial, any_value(channels) AS channels,
    avg(affinity) AS affinity, stddev_samp(affinity) AS affinity_std, count(affinity) AS batches,
    min(affinity) AS affinity_min, max(affinity) AS affinity_max,
    avg(affinity_plain) AS affinity_plain, avg(cka) AS cka, avg(cka_debiased) AS cka_debiased,
    avg(norm) AS norm, avg(norm_per_element) AS norm_per_element,
    avg(norm_relative) AS norm_relative,
    avg(sparsity_before) AS sparsity_before, avg(sparsity_after) AS sparsity_after,
    avg(sparsity_change) AS sparsity_change,
    avg(entropy_before) AS entropy_before, avg(entropy_after) AS entropy_after,
    avg(entropy_change) AS entropy_change,
    avg(r2) AS r2, avg(r2_heldout) AS r2_heldout,
    count(*) FILTER (status <> 'ok') AS without_score,
    list_sort(list_distinct(flatten(list(flags)))) AS flags,
    list_sort(list_distinct(flatten(list(notes)))) AS notes
  FROM batch_scores WHERE run_id = $run_id GROUP BY site
)
SELECT site, site_name, activation, role, repeat, graph_depth, layout, spatial, channels,
  affinity, affinity_std, affinity_std / sqrt(batches) AS affinity_se, batches,
  affinity_min, affinity_max,
  affinity_plain, cka, cka_debiased, norm, norm_per_element, norm_relative,
  sparsity_before, sparsity_after, sparsity_change, entropy_before, entropy_after, entropy_change,
  r2, r2_heldout, without_score, flags, notes
FROM spread ORDER BY site;

-- name: run_costs
-- What each finished run took, newest last: GFLOPs, images, scores, seconds, most memory in use.
SELECT source || ':' || architecture AS full_name, coalesce(gflops, 0) AS gflops, images,
  coalesce(sites * batches, 0)::BIGINT AS scores, seconds, device, peak_memory
FROM runs WHERE status = 'done' AND seconds > 0 AND images > 0
ORDER BY finished_at;

-- name: run_progress
-- How far every run is: its status, batches, images, accuracy and what is suspect about it.
WITH reached AS (
  SELECT run_id, count(*) AS batches, sum(images)::BIGINT AS images FROM batches GROUP BY run_id
)
SELECT run_id, coalesce(status, 'running') AS status, coalesce(reached.batches, 0) AS batches,
  coalesce(reached.images, 0) AS images, measured_top1, suspicion
FROM runs FULL JOIN reached USING (run_id);

-- name: batch_affinities
-- Every batch score of some runs ($run_ids), in the order of batches and sites.
SELECT run_id, batch, site, affinity
FROM batch_scores WHERE list_contains($run_ids, run_id)
ORDER BY run_id, batch, site;
