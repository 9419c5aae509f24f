-- Move the count of one type and state. One slot is enough where there is one writer at a time.
INSERT INTO warrener_job_counts (job_type, state, slot, jobs)
VALUES (?, ?, 0, ?)
ON CONFLICT (job_type, state, slot) DO UPDATE SET jobs = jobs + excluded.jobs
