-- Turns: gates that several job types share, and numbers of slots that a person has set.
--
-- Nothing is rewritten or read: the columns are NULL in all rows.
ALTER TABLE warrener_gates ADD COLUMN declared_at {moment};
ALTER TABLE warrener_gates ADD COLUMN set_slots integer CONSTRAINT set_slots_from_one CHECK (set_slots >= 1);
