"""Ticks of schedules: pure functions of a rule, its zone and the moment after which to look.

The scheduler decides by them, and the console previews by them: each in its own process, by the same code.
"""
