"""Incidents that are escalated, and their occurrences."""
