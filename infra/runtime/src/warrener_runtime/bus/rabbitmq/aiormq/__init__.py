"""Aiormq."""
