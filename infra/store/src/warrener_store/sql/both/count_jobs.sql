-- How many jobs of each type are in each state: a handful of rows, however many jobs there are.
SELECT job_type, state, sum(jobs) AS jobs
FROM warrener_job_counts
GROUP BY job_type, state
HAVING sum(jobs) > 0
ORDER BY job_type, state
