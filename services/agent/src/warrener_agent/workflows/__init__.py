"""Workflows: jobs whose handlers wait for other jobs, turn by turn."""
