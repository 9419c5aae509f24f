-- Mark a tree as cancelled; what is marked already stays as it is.
INSERT INTO warrener_cancelled_trees (job_id, reason, cancelled_at)
VALUES (?, ?, ?)
ON CONFLICT (job_id) DO NOTHING
