-- Which of these jobs have a tree that is cancelled.
SELECT tree.job_id, tree.reason, tree.cancelled_at
FROM json_each(?1) AS told
JOIN warrener_cancelled_trees AS tree ON tree.job_id = told.value
