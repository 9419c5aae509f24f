"""Schedules and the ledger of their ticks: a port of its own, kept by the same stores."""
