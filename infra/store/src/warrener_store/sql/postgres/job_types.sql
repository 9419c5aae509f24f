-- The job types of these names, or all.
SELECT
  name, queue, arguments_schema, result_schema, guarantee, policy, description, announced_by, announced_at
FROM warrener_job_types
WHERE $1::text[] IS NULL OR name = ANY($1::text[])
