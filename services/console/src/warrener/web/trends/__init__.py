"""Trends: series of ended jobs over a window of time, deploys, and the moment when jobs began to fail."""
