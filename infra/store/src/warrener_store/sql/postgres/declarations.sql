-- Which declarations of these schedules, and for these job types, were taken up.
SELECT known.name, known.fingerprint, known.job_type, known.declared_by, known.declared_at
FROM warrener_schedule_declarations AS known
WHERE known.name IN (SELECT jsonb_array_elements_text($1::text::jsonb))
  OR known.job_type IN (SELECT jsonb_array_elements_text($2::text::jsonb))
ORDER BY known.name, known.declared_at, known.fingerprint
