-- Unique jobs: a key, and the job that holds it.
--
-- Nothing is rewritten or read, however many jobs there are. The primary key gives a key to one job, however many request it
-- at once. A row whose job is over, or has begun, or is gone, is taken by the next request: nobody frees it.
CREATE TABLE warrener_unique_keys (
    unique_key text NOT NULL PRIMARY KEY,
    job_id {id} NOT NULL REFERENCES warrener_jobs (job_id) ON DELETE CASCADE,
    previous {id},
    replaced {id},
    since {moment} NOT NULL
);
CREATE INDEX warrener_unique_keys_job ON warrener_unique_keys (job_id);
