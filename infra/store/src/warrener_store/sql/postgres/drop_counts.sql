-- Delete the counts of these job types where they come to nothing. The rows are locked before they are summed, so what
-- somebody has counted meanwhile is in the sum.
WITH held AS MATERIALIZED (
  SELECT job_type, state, slot, jobs
  FROM warrener_job_counts
  WHERE job_type = ANY ($1::text[])
  ORDER BY job_type, state
  FOR UPDATE
),
nothing AS (
  SELECT job_type, state FROM held GROUP BY job_type, state HAVING sum(jobs) = 0
)
DELETE FROM warrener_job_counts AS gone
USING held
JOIN nothing ON nothing.job_type = held.job_type AND nothing.state = held.state
WHERE gone.job_type = held.job_type AND gone.state = held.state AND gone.slot = held.slot
