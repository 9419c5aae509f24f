-- Mark trees as cancelled; what is marked already stays as it is.
INSERT INTO warrener_cancelled_trees (job_id, reason, cancelled_at)
SELECT * FROM unnest($1::uuid[], $2::text[], $3::timestamptz[]) AS told (job_id, reason, cancelled_at)
ON CONFLICT (job_id) DO NOTHING
