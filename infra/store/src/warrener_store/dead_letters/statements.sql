-- name: put_redrive
-- Insert a redrive; an existing one stays as it is.
INSERT INTO warrener_redrives (
  redrive_id, kind, request, requested_by, reason, requested_at, version, state, stop_reason, counts, started_at, counts_at_start, journal,
  wake_at, updated_at, finished_at, after_died_at, after_job_id
)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18)
ON CONFLICT DO NOTHING
RETURNING redrive_id

-- name: redrives
-- All redrives, the last requested first.
SELECT {redrive}
FROM warrener_redrives AS redrive
ORDER BY redrive.requested_at DESC, redrive.redrive_id DESC
LIMIT $1

-- name: redrives_by_id
-- Redrives of these ids, the last requested first.
SELECT {redrive}
FROM warrener_redrives AS redrive
WHERE redrive.redrive_id = ANY($2::uuid[])
ORDER BY redrive.requested_at DESC, redrive.redrive_id DESC
LIMIT $1

-- name: redrive_outcomes
-- Dead letters that a redrive has redriven, with the state of the new job and the cause of its death: those whose new
-- job is over, and those requested by then that no scheduler has accepted.
SELECT {dead_letter}, job.state, heir.fingerprint
FROM warrener_dead_letters AS dead_letter
LEFT JOIN warrener_jobs AS job ON job.job_id = dead_letter.redriven_as
LEFT JOIN warrener_dead_letters AS heir ON heir.job_id = dead_letter.redriven_as
WHERE
  dead_letter.redrive_id = $1 AND dead_letter.state = 'redriven'
  AND (job.finished_at IS NOT NULL OR (job.job_id IS NULL AND dead_letter.redriven_at <= $2))
ORDER BY dead_letter.died_at, dead_letter.job_id
LIMIT $3

-- name: succeeded_since
-- Jobs of these types, accepted since then, that have succeeded with one of these requests.
SELECT job.job_id, job.job_type, job.request_hash, job.accepted_at
FROM warrener_jobs AS job
WHERE
  job.state = 'succeeded' AND job.job_type = ANY($2::text[]) AND job.accepted_at > $3
  AND job.request_hash = ANY($1::text[])
