"""Times and durations in words."""

import re
from datetime import UTC, datetime, timedelta, tzinfo

MOMENT = re.compile(r"\d{4}-\d\d-\d\dT[\d:.]+(?:Z|[+-]\d\d:\d\d)")  # a time as verdicts and messages write it


def span(length: timedelta, *, units: int = 2) -> str:
    """A duration in at most `units` units: `0.3 s`, `42 s`, `3 min 5 s`, `2 h 10 min`, `4 d 3 h`."""
    seconds = abs(length.total_seconds())
    if seconds < 10:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    sizes = ((86400, "d"), (3600, "h"), (60, "min"), (1, "s"))
    parts: list[str] = []
    for size, name in sizes:
        count, whole = divmod(whole, size)
        if count or parts:
            parts.append(f"{count} {name}" if count else "")
        if len(parts) == units:
            break
    return " ".join(part for part in parts if part)


def brief(length: timedelta) -> str:
    """A duration of any size: `0.4 ms`, `340 ms`, `1.2 s`, else as `span` gives it."""
    seconds = abs(length.total_seconds())
    if seconds < 0.001:
        return f"{seconds * 1000:.1f} ms" if seconds else "0 ms"
    if seconds < 0.9995:
        return f"{seconds * 1000:.0f} ms"
    return f"{seconds:.3g} s" if seconds < 10 else span(length)


def ago(moment: datetime, now: datetime) -> str:
    """`3 min ago`, `in 20 s`, `now`."""
    gone = now - moment
    if abs(gone) < timedelta(seconds=1):
        return "now"
    first = span(gone)
    return f"{first} ago" if gone > timedelta(0) else f"in {first}"


def clock(moment: datetime) -> str:
    """Local time of day, with the date unless it is today's."""
    return time_in_zone(moment, datetime.now(UTC), None)


def time_in_zone(moment: datetime, now: datetime, zone: tzinfo | None) -> str:
    """Time of day in a zone, with the date unless it is that of `now`; None: the local zone. Pure."""
    there, today = moment.astimezone(zone), now.astimezone(zone).date()
    return f"{there:%H:%M:%S}" if there.date() == today else f"{there:%Y-%m-%d %H:%M:%S}"
