-- name: append_log
-- Insert chunks of log lines whose jobs exist; a chunk that is stored already stays as it is, but may become final.
INSERT INTO warrener_attempt_logs ({log_chunk})
SELECT batch.*
FROM {batch job_id uuid, attempt integer, started_at timestamptz, first_line bigint, last_line bigint,
  line_count integer, agent_id text, final boolean, size integer, lines text} AS batch
WHERE EXISTS (SELECT 1 FROM warrener_jobs AS job WHERE job.job_id = batch.job_id)
ORDER BY batch.job_id, batch.attempt, batch.started_at, batch.first_line
ON CONFLICT (job_id, attempt, started_at, first_line) DO UPDATE SET final = excluded.final
WHERE excluded.final AND NOT warrener_attempt_logs.final

-- name: logs_of
-- The chunks of a job, or of one of its attempts, behind a position. By the primary key.
SELECT {log_chunk}
FROM warrener_attempt_logs
WHERE job_id = $1 AND ($2::integer IS NULL OR attempt = $2::integer)
  AND (attempt, started_at, first_line) > ($3, $4, $5)
ORDER BY attempt, started_at, first_line

-- name: trim_logs
-- Delete chunks of these jobs behind which an attempt has enough lines ($2) or bytes ($3), and those of all but the last
-- $4 attempts.
DELETE FROM warrener_attempt_logs
WHERE (job_id, attempt, started_at, first_line) IN (
  SELECT job_id, attempt, started_at, first_line
  FROM (
    SELECT job_id, attempt, started_at, first_line,
      sum(line_count) OVER later AS later_lines,
      sum(size) OVER later AS later_size,
      max(attempt) OVER (PARTITION BY job_id) AS last_attempt
    FROM warrener_attempt_logs
    WHERE job_id = ANY ($1::uuid[])
    WINDOW later AS (
      PARTITION BY job_id, attempt ORDER BY started_at DESC, first_line DESC
      ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
    )
  ) AS stored
  WHERE later_lines >= $2::integer OR later_size >= $3::integer OR attempt <= last_attempt - $4::integer
)
