-- Add reply addresses to jobs that are not over; each stands once, at its last place; the oldest give way.
WITH told AS (
  SELECT * FROM unnest($1::uuid[], $2::text[]) WITH ORDINALITY AS told (job_id, address, place)
),
live AS (
  SELECT job.job_id, job.watchers
  FROM warrener_jobs AS job
  WHERE job.job_id IN (SELECT told.job_id FROM told) AND job.finished_at IS NULL
  ORDER BY job.job_id
  FOR NO KEY UPDATE OF job
),
everybody AS (
  SELECT live.job_id, known.address, 0 AS later, known.place
  FROM live CROSS JOIN json_array_elements_text(live.watchers::json) WITH ORDINALITY AS known (address, place)
  UNION ALL
  SELECT told.job_id, told.address, 1 AS later, told.place
  FROM told
),
latest AS (
  SELECT job_id, address, max(later * 1000000000 + place) AS place
  FROM everybody
  GROUP BY job_id, address
),
ranked AS (
  SELECT job_id, address, place, row_number() OVER (PARTITION BY job_id ORDER BY place DESC) AS rank
  FROM latest
),
kept AS (
  SELECT job_id, json_agg(address ORDER BY place) AS watchers
  FROM ranked
  WHERE rank <= $3::bigint
  GROUP BY job_id
)
UPDATE warrener_jobs AS job
SET watchers = kept.watchers::text, version = job.version + 1
FROM live
JOIN kept ON kept.job_id = live.job_id
WHERE job.job_id = live.job_id
RETURNING job.job_id
