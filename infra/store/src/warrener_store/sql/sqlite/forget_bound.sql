-- This is not bound any more.
DELETE FROM warrener_bound WHERE exchange = ? AND key = ?
