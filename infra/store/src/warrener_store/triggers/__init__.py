"""What schedules wait for, and what of it has happened: a port of its own, kept by the same stores."""
