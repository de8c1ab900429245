-- Queries that the page of SQL offers. Each begins with `-- name:` and what it asks.

-- name: every model, the most affine last
SELECT architecture, checkpoint, dataset, measured_top1, sites, images_per_score, affinity
FROM models ORDER BY affinity;

-- name: mean affinity by family
SELECT family, count(*) AS models, avg(affinity) AS affinity, min(affinity) AS lowest,
  max(affinity) AS highest
FROM models GROUP BY family ORDER BY affinity;

-- name: mean affinity by activation
SELECT activation, count(*) AS sites, avg(affinity) AS affinity
FROM latest_signatures GROUP BY activation ORDER BY affinity;

-- name: accuracy and affinity of every model
SELECT architecture, affinity, measured_top1 FROM models WHERE measured_top1 IS NOT NULL;

-- name: the sites furthest from affine
SELECT architecture, checkpoint, site_name, activation, affinity
FROM latest_signatures WHERE affinity IS NOT NULL ORDER BY affinity LIMIT 50;

-- name: what failed, and why
SELECT * FROM failures LIMIT 200;
