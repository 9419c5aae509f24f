"""Retention: what is old is found, and deleted in batches."""
