-- Claim the pruning, or keep one's own claim; nothing where another's is in force.
INSERT INTO warrener_pruning AS held (one, holder, until)
VALUES (1, $1, $3)
ON CONFLICT (one) DO UPDATE SET holder = excluded.holder, until = excluded.until
WHERE held.holder = excluded.holder OR held.until <= $2
RETURNING one
