-- A declaration that was taken up; the first word counts.
INSERT INTO warrener_schedule_declarations (name, fingerprint, job_type, declared_by, declared_at)
VALUES (?, ?, ?, ?, ?)
ON CONFLICT (name, fingerprint) DO NOTHING
