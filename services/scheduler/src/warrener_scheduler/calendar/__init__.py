"""Ticks of schedules: pure functions of a rule, its zone and the moment after which to look."""
