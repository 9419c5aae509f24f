"""Schedules, their ticks, the events they wait for and the expectations of their owners."""
