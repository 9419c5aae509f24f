-- Insert or replace a job type by name; an older announcement does not replace a newer one.
INSERT INTO warrener_job_types (
  name, queue, arguments_schema, result_schema, guarantee, policy, description, announced_by, announced_at
)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (name) DO UPDATE SET
  queue = excluded.queue,
  arguments_schema = excluded.arguments_schema,
  result_schema = excluded.result_schema,
  guarantee = excluded.guarantee,
  policy = excluded.policy,
  description = excluded.description,
  announced_by = excluded.announced_by,
  announced_at = excluded.announced_at
WHERE announced_at <= excluded.announced_at
