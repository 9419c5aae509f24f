"""Agents and the job types that they announce."""
