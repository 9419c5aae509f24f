-- An occurrence that was not there before.
INSERT INTO warrener_case_entries (fingerprint, occurrence, subject, raised_at, done)
VALUES (?, ?, ?, ?, 0)
