-- Declarations that were taken up; the first word counts.
INSERT INTO warrener_schedule_declarations (name, fingerprint, job_type, declared_by, declared_at)
SELECT * FROM unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::timestamptz[])
ON CONFLICT (name, fingerprint) DO NOTHING
