-- name: recent_ends
-- The number of jobs that ended in each minute since a moment.
SELECT job_type, state, date_trunc('minute', finished_at) AS minute, count(*) AS jobs
FROM warrener_jobs
WHERE finished_at IS NOT NULL AND finished_at > $1
GROUP BY job_type, state, minute

-- name: add_statistics
-- Move the position of the rollup and write the buckets, together; nothing if another supervisor was first.
WITH moved AS (
  {moved_position}
),
series AS (
  INSERT INTO warrener_statistics ({series_bucket})
  SELECT batch.*
  FROM unnest(
    $5::integer[], $6::text[], $7::text[], $8::timestamptz[], $9::text[], $10::integer[], $11::integer[],
    $12::integer[], $13::integer[], $14::integer[], $15::integer[], $16::double precision[],
    $17::double precision[], $18::text[], $19::double precision[], $20::double precision[], $21::text[]
  ) AS batch
  WHERE EXISTS (SELECT 1 FROM moved)
  ON CONFLICT (span, kind, name, starts_at, code_version) DO UPDATE SET
    succeeded = excluded.succeeded,
    dead = excluded.dead,
    cancelled = excluded.cancelled,
    expired = excluded.expired,
    failed_attempts = excluded.failed_attempts,
    lost_attempts = excluded.lost_attempts,
    duration_sum = excluded.duration_sum,
    duration_max = excluded.duration_max,
    durations = excluded.durations,
    queue_time_sum = excluded.queue_time_sum,
    queue_time_max = excluded.queue_time_max,
    queue_times = excluded.queue_times
),
causes AS (
  INSERT INTO warrener_statistics_causes ({cause_bucket})
  SELECT batch.*
  FROM unnest(
    $22::integer[], $23::text[], $24::timestamptz[], $25::text[], $26::integer[], $27::text[], $28::text[]
  ) AS batch
  WHERE EXISTS (SELECT 1 FROM moved)
  ON CONFLICT (span, job_type, starts_at, fingerprint) DO UPDATE SET
    jobs = excluded.jobs,
    error_type = excluded.error_type,
    message = excluded.message
)
SELECT 1 FROM moved
