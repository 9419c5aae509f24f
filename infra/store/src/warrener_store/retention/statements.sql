-- name: old_jobs
-- A page of jobs of one type and one terminal state, the first accepted first, and which of them are deletable.
--
-- By the index of lists: a job is over after it was accepted, so nothing old is missed, and no index on the end of
-- jobs costs every save.
SELECT job.job_id, job.accepted_at, job.source, ({prunable}) AS free
FROM (
  SELECT listed.job_id, listed.accepted_at
  FROM warrener_jobs AS listed
  WHERE listed.state = $3 AND listed.job_type = $4 AND listed.accepted_at < $1
    AND (listed.accepted_at, listed.job_id) > ($5, $6)
  ORDER BY listed.accepted_at, listed.job_id
  LIMIT $7
) AS page
JOIN warrener_jobs AS job ON job.job_id = page.job_id
ORDER BY job.accepted_at, job.job_id

-- name: old_occurrences
-- The oldest occurrences of incidents, a batch.
SELECT fingerprint, occurrence, subject, raised_at
FROM warrener_incident_occurrences
WHERE raised_at < $1
ORDER BY raised_at, fingerprint, occurrence
LIMIT $2
