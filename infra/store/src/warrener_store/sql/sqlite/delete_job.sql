-- Delete a job with all that refers to it by a foreign key. Run in the transaction that has found it prunable.
DELETE FROM warrener_jobs WHERE job_id = ?
