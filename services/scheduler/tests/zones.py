"""What the tests of clocks look at: every zone of the database, these years, the hours around a change."""

from datetime import datetime, timedelta
from zoneinfo import available_timezones

ZONES = sorted(available_timezones() - {"localtime", "posixrules", "Factory"})
YEARS = range(2020, 2038)


def around(change: datetime) -> tuple[datetime, datetime]:
    """Longer than any clock has ever jumped, on both sides."""
    return change - timedelta(hours=30), change + timedelta(hours=30)
