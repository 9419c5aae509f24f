-- How many published jobs of a queue are queued, by what may share a message; and how many of them are settled.
SELECT job_type, policy, count(*) AS jobs, sum(CASE WHEN dispatched_at <= $2 THEN 1 ELSE 0 END) AS settled
FROM (
  SELECT job_type, policy, dispatched_at
  FROM warrener_jobs
  WHERE state = 'queued' AND queue = $1 AND dispatched_at IS NOT NULL
  ORDER BY dispatched_at, job_id
  LIMIT $3
) AS published
GROUP BY job_type, policy
ORDER BY job_type, policy
