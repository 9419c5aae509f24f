"""Schedules that tick because something happened: events are heard, judged by the rules that wait for them,
and kept as arrivals; `schedules/event_ticks.py` makes ticks of these."""
