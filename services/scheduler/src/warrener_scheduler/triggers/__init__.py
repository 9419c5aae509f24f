"""Schedules that wait for events: bindings of the triggers queue, and its consumer."""
