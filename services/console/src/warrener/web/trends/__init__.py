"""Trends: series of ended jobs over a window of time, and deploys."""
