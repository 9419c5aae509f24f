-- Which of these jobs have a tree that is cancelled.
SELECT job_id, reason, cancelled_at
FROM warrener_cancelled_trees
WHERE job_id = ANY($1::uuid[])
