-- The jobs that stand in the way of an insert. A union: each half goes by its own index, and no job comes twice.
SELECT {job} FROM warrener_jobs AS job WHERE job.job_id IN (SELECT value FROM json_each(?1))
UNION
SELECT {job} FROM warrener_jobs AS job WHERE job.idempotency_key IN (SELECT value FROM json_each(?2))
