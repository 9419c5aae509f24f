"""Schedules: their commands and their ticks. Ticks request jobs as any client does. Any number may run."""
