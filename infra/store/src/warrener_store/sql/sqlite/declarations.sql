-- Which declarations of these schedules, and for these job types, were taken up.
SELECT known.name, known.fingerprint, known.job_type, known.declared_by, known.declared_at
FROM warrener_schedule_declarations AS known
WHERE known.name IN (SELECT value FROM json_each(?1)) OR known.job_type IN (SELECT value FROM json_each(?2))
ORDER BY known.name, known.declared_at, known.fingerprint
