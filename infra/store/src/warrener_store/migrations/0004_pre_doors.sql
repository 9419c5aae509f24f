-- Doors: the id that a requester gave, the users of the broker behind agents and announcements, and the secret from which the
-- ids of ticks derive.
--
-- Nothing is rewritten or read, however many jobs there are: the columns are NULL in all rows.
ALTER TABLE warrener_jobs ADD COLUMN request_id text;
ALTER TABLE warrener_job_types ADD COLUMN broker_user text;
ALTER TABLE warrener_job_types ADD COLUMN started_at {moment};
ALTER TABLE warrener_agents ADD COLUMN broker_user text;
ALTER TABLE warrener_installation ADD COLUMN secret text;
