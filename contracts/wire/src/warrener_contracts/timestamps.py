"""Moments as they are written on the wire; in a file of their own, because rules stand below the events."""

from datetime import UTC, datetime
from typing import Annotated

from pydantic import AfterValidator, AwareDatetime


def _in_utc(moment: datetime) -> datetime:
    if not 1970 <= moment.year < 9000:  # a delay is added to some: past the year 9999 that would overflow
        raise ValueError(f"expected a time from the year 1970 to 8999, got {moment.isoformat()}")
    return moment if moment.tzinfo is UTC else moment.astimezone(UTC)


Timestamp = Annotated[AwareDatetime, AfterValidator(_in_utc)]
"""A moment in UTC, RFC 3339 on the wire; a time without an offset is refused."""
