-- Named queries over the signature store. Each begins with `-- name:` and a sentence.

-- name: signatures_overview
-- One line a run: what it is, how far it came, its accuracy, its sites' affinity, their flags.
WITH per_site AS (
  SELECT run_id, site, avg(affinity) AS affinity FROM batch_scores GROUP BY run_id, site
), per_run AS (
  SELECT run_id, count(*) AS sites, min(affinity) AS lowest,
    median(affinity) AS median, avg(affinity) AS mean,
    max(affinity) AS highest
  FROM per_site GROUP BY run_id
), measured AS (
  SELECT run_id, count(*) AS batches FROM batches GROUP BY run_id
), marked AS (
  SELECT DISTINCT run_id, site, unnest(flags) AS flag FROM layer_scores WHERE len(flags) > 0
), counted AS (
  SELECT run_id, flag, count(*) AS sites FROM marked GROUP BY run_id, flag
), flagged AS (
  SELECT run_id, string_agg(flag || ' ' || sites, ', ' ORDER BY flag) AS flags
  FROM counted GROUP BY run_id
)
SELECT runs.run_id, architecture, checkpoint, dataset, images_per_score,
  if(suspicion IS NULL, status, 'suspect') AS status, measured_top1 AS top1,
  coalesce(per_run.sites, runs.sites) AS sites, coalesce(measured.batches, 0) AS batches,
  lowest, median, mean, highest, flags
FROM runs LEFT JOIN per_run USING (run_id) LEFT JOIN measured USING (run_id)
  LEFT JOIN flagged USING (run_id)
ORDER BY source, architecture, checkpoint, dataset, runs.run_id;

-- name: run_measures
-- One run's measures of its whole network ($run_id), or the reason for having none.
SELECT measure, value, standard_error, samples, reason, details
FROM network_scores WHERE run_id = $run_id ORDER BY measure;

-- name: run_sites
-- One run's signature site by site ($run_id): its metrics over batches, failures, flags, notes.
WITH sites AS (
  SELECT site, any_value(site_name) AS site_name, any_value(activation) AS activation,
    any_value(role) AS role, any_value(repeat) AS repeat, any_value(graph_depth) AS graph_depth,
    any_value(layout) AS layout, any_value(spatial) AS spatial, any_value(channels) AS channels,
    avg(affinity) AS affinity, stddev_samp(affinity) AS affinity_std,
    stddev_samp(affinity) / sqrt(count(affinity)) AS affinity_se, count(affinity) AS batches,
    min(affinity) AS affinity_min, max(affinity) AS affinity_max
  FROM batch_scores WHERE run_id = $run_id GROUP BY site
), metrics AS (
  -- Whatever else there is: a store has the columns of every metric that was ever installed.
  SELECT site, avg(COLUMNS(* EXCLUDE (run_id, batch, site, site_name, activation, call, graph_depth,
    role, repeat, layout, spatial, channels, images, affinity, status, reason, raw_affinity,
    input_variance, output_variance, constant_fraction, flags, notes)))
  FROM batch_scores WHERE run_id = $run_id GROUP BY site
), notes AS (
  SELECT site, count(*) FILTER (status <> 'ok') AS without_score,
    list_sort(list_distinct(flatten(list(flags)))) AS flags,
    list_sort(list_distinct(flatten(list(notes)))) AS notes
  FROM layer_scores WHERE run_id = $run_id GROUP BY site
)
SELECT * FROM sites JOIN metrics USING (site) JOIN notes USING (site) ORDER BY site;

-- name: flag_counts
-- How many sites of some runs ($run_ids; NULL for all) bear each flag, and the widest of them.
WITH marked AS (
  SELECT DISTINCT run_id, site, channels, unnest(flags) AS flag FROM layer_scores
  WHERE len(flags) > 0 AND ($run_ids IS NULL OR list_contains($run_ids, run_id))
)
SELECT flag, count(*) AS sites, max(channels) AS channels FROM marked GROUP BY flag;

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

-- name: store_size
-- How much was measured: rows of the tables, and the seconds of all runs.
SELECT (SELECT count(*) FROM runs) AS runs, (SELECT count(*) FROM batches) AS batches,
  (SELECT count(*) FROM batch_scores) AS batch_scores,
  (SELECT coalesce(sum(seconds), 0)::DOUBLE FROM batches) AS seconds;
