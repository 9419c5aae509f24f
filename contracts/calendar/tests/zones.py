"""The range of the clock tests: every zone of the database, these years, the hours around a change."""

from datetime import datetime, timedelta
from zoneinfo import available_timezones

from warrener_calendar.zones import zone_file

ZONES = sorted(available_timezones() - {"localtime", "posixrules", "Factory"})
DISTINCT = sorted({zone_file(name): name for name in reversed(ZONES)}.values())
"""One name for each of them that has several: what the database says is the same."""
YEARS = range(2020, 2038)


def around(change: datetime) -> tuple[datetime, datetime]:
    """Longer than any clock has ever jumped, on both sides."""
    return change - timedelta(hours=30), change + timedelta(hours=30)
