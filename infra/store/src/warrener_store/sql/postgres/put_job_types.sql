-- Insert or replace job types by name; an older announcement does not replace a newer one.
INSERT INTO warrener_job_types AS held (
  name, queue, arguments_schema, result_schema, guarantee, policy, description, announced_by, announced_at
)
SELECT *
FROM unnest(
  $1::text[], $2::text[], $3::text[], $4::text[], $5::text[], $6::text[], $7::text[], $8::text[],
  $9::timestamptz[]
) AS told (
  name, queue, arguments_schema, result_schema, guarantee, policy, description, announced_by, announced_at
)
ORDER BY told.name
ON CONFLICT (name) DO UPDATE SET
  queue = excluded.queue,
  arguments_schema = excluded.arguments_schema,
  result_schema = excluded.result_schema,
  guarantee = excluded.guarantee,
  policy = excluded.policy,
  description = excluded.description,
  announced_by = excluded.announced_by,
  announced_at = excluded.announced_at
WHERE held.announced_at <= excluded.announced_at
