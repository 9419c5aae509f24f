-- The jobs that stand in the way of an insert. A union: each half goes by its own index.
SELECT {job} FROM warrener_jobs AS job WHERE job.job_id = ANY($1::uuid[])
UNION ALL
SELECT {job} FROM warrener_jobs AS job
WHERE job.idempotency_key = ANY($2::text[]) AND NOT job.job_id = ANY($1::uuid[])
