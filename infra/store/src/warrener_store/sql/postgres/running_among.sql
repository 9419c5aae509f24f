-- Those of these jobs that run. IS TRUE keeps to the primary key: an agent's few must not read all that runs.
SELECT job.job_id, job.attempt, job.owner, job.lease_until, job.cancel_reason IS NOT NULL AS cancelled
FROM warrener_jobs AS job
WHERE job.job_id = ANY($1::uuid[]) AND (job.state = 'running') IS TRUE
