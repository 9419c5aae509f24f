"""Schedules beside the commands: the file format, plans, backfills, holidays, and what the calendar says."""
