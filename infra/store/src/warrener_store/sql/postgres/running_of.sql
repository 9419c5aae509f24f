-- All attempts that these agents run, by the index of what runs.
SELECT job.job_id, job.attempt, job.owner, job.lease_until, job.cancel_reason IS NOT NULL AS cancelled
FROM warrener_jobs AS job
WHERE job.state = 'running' AND job.owner = ANY($1::text[])
