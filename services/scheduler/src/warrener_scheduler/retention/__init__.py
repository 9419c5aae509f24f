"""Retention: how long what is over is kept, and who deletes it."""
