"""Escalation: retry, park, alert, digest, compensate, close, in the steps that a file declares."""
