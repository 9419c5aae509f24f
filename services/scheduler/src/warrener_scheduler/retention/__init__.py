"""Retention: how long finished rows stay, and their deletion."""
