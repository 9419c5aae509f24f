-- name: ended_jobs
-- Jobs that ended behind a position, in order, until a moment. By warrener_jobs_ended; several jobs end at one moment,
-- so the position has an id too.
SELECT
  job.job_id, job.job_type, job.state, job.source, job.agent_id, job.failures, job.losses, job.dispatched_at,
  coalesce(job.run_started_at, job.started_at) AS started_at,
  coalesce(job.run_finished_at, job.finished_at) AS ran_until,
  job.finished_at,
  CASE WHEN job.state = 'dead' THEN (
    SELECT dead_letter.fingerprint FROM warrener_dead_letters AS dead_letter WHERE dead_letter.job_id = job.job_id
  ) END AS fingerprint,
  CASE WHEN job.state = 'dead' THEN job.error END AS error
FROM warrener_jobs AS job
WHERE job.finished_at IS NOT NULL AND job.finished_at >= $1 AND job.finished_at <= $3
  AND (job.finished_at > $1 OR job.job_id > $2)
ORDER BY job.finished_at, job.job_id
LIMIT $4

-- name: rollup_position
-- How far jobs are rolled up.
SELECT revision, finished_at, job_id, complete_until FROM warrener_statistics_position WHERE one = 1

-- name: series
-- The buckets of these series, in order. By the primary key, one range for each name.
SELECT {series_bucket}
FROM warrener_statistics
WHERE span = $1 AND kind = $2 AND name = ANY($3::text[]) AND starts_at >= $4 AND starts_at < $5
ORDER BY name, starts_at, code_version

-- name: causes
-- The buckets of the causes of death of these job types, in order. By the primary key.
SELECT {cause_bucket}
FROM warrener_statistics_causes
WHERE span = $1 AND job_type = ANY($2::text[]) AND starts_at >= $3 AND starts_at < $4
ORDER BY job_type, starts_at, fingerprint

-- name: series_names
-- The names of all series.
SELECT DISTINCT kind, name FROM warrener_statistics WHERE span = $1

-- name: drop_series
-- Delete buckets that began before a moment.
DELETE FROM warrener_statistics WHERE span = $1 AND starts_at < $2

-- name: drop_causes
-- Delete buckets of causes that began before a moment.
DELETE FROM warrener_statistics_causes WHERE span = $1 AND starts_at < $2

-- name: put_deploy
-- Insert deploys, or note that their versions are still seen.
INSERT INTO warrener_deploys AS held ({deploy})
SELECT *
FROM {batch job_type text, first_seen_at timestamptz, code_version text, last_seen_at timestamptz,
  schema_hash text} AS batch
WHERE true
ON CONFLICT (job_type, first_seen_at, code_version) DO UPDATE SET
  last_seen_at = greatest(held.last_seen_at, excluded.last_seen_at)

-- name: deploys
-- The deploys of these job types, or all, that were first seen since; the newest first.
SELECT {deploy}
FROM warrener_deploys
WHERE first_seen_at >= $1 AND ($2::text[] IS NULL OR job_type = ANY($2::text[]))
ORDER BY first_seen_at DESC, job_type, code_version
LIMIT $3

-- name: put_agent_version
-- Note the version of the code that agents run from a moment on.
INSERT INTO warrener_agent_versions ({agent_version})
SELECT * FROM {batch agent_id text, since timestamptz, code_version text} AS batch
WHERE true
ON CONFLICT (agent_id, since) DO NOTHING

-- name: agent_versions
-- The versions that these agents have run, the oldest first.
SELECT {agent_version} FROM warrener_agent_versions WHERE agent_id = ANY($1::text[]) ORDER BY agent_id, since

-- name: drop_deploys
-- Delete deploys that are long gone.
DELETE FROM warrener_deploys WHERE last_seen_at < $1

-- name: drop_agent_versions
-- Delete the versions that agents ran before a moment, but the last one of each agent that is still stored.
DELETE FROM warrener_agent_versions
WHERE since < $1 AND NOT (
  EXISTS (SELECT 1 FROM warrener_agents AS agent WHERE agent.agent_id = warrener_agent_versions.agent_id)
  AND NOT EXISTS (
    SELECT 1 FROM warrener_agent_versions AS newer
    WHERE newer.agent_id = warrener_agent_versions.agent_id AND newer.since > warrener_agent_versions.since
  )
)

-- name: moved_position
-- Part of the statement that adds statistics: no row if another supervisor was first.
INSERT INTO warrener_statistics_position AS held (one, revision, finished_at, job_id, complete_until)
VALUES (1, $1, $2, $3, $4)
ON CONFLICT (one) DO UPDATE SET
  revision = excluded.revision,
  finished_at = excluded.finished_at,
  job_id = excluded.job_id,
  complete_until = excluded.complete_until
WHERE held.revision = excluded.revision - 1
RETURNING 1
