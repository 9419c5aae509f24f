"""The smallest step of time: what lies just before a moment, and just behind it."""

from datetime import timedelta

INSTANT = timedelta.resolution
