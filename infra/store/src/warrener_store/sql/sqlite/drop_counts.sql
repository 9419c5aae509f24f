-- Delete the counts of these job types where they come to nothing.
DELETE FROM warrener_job_counts
WHERE job_type IN (SELECT value FROM json_each($1)) AND (
  SELECT sum(same.jobs)
  FROM warrener_job_counts AS same
  WHERE same.job_type = warrener_job_counts.job_type AND same.state = warrener_job_counts.state
) = 0
