-- Each queue that has queued jobs, when the first of those was dispatched that are published, and whether some are not.
-- From queue to queue by the index: as many lookups as queues, however many jobs wait.
WITH RECURSIVE heads AS (
  SELECT min(queue) AS queue FROM warrener_jobs WHERE state = 'queued'
  UNION ALL
  SELECT (SELECT min(job.queue) FROM warrener_jobs AS job WHERE job.state = 'queued' AND job.queue > heads.queue)
  FROM heads
  WHERE heads.queue IS NOT NULL
)
SELECT
  heads.queue,
  (
    SELECT job.dispatched_at
    FROM warrener_jobs AS job
    WHERE job.state = 'queued' AND job.queue = heads.queue AND job.dispatched_at IS NOT NULL
    ORDER BY job.dispatched_at
    LIMIT 1
  ) AS oldest,
  EXISTS (
    SELECT 1 FROM warrener_jobs AS job
    WHERE job.state = 'queued' AND job.queue = heads.queue AND job.dispatched_at IS NULL
  ) AS unpublished
FROM heads
WHERE heads.queue IS NOT NULL
