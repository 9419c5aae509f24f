-- The job types of these names, or all.
SELECT
  name, queue, arguments_schema, result_schema, guarantee, policy, description, announced_by, announced_at
FROM warrener_job_types
WHERE ?1 IS NULL OR name IN (SELECT value FROM json_each(?1))
