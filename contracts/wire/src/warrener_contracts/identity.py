"""Which job a request, a follow-up and a tick means: derived, so that a repeat is recognised."""

import re
from datetime import UTC, datetime
from uuid import UUID, uuid5

# uuid5(NAMESPACE_DNS, "warrener.requests" and "warrener.ticks"); fixed for ever: changing them would make
# repeats look new.
_REQUESTS = UUID("ab072b26-5e10-5f7a-9430-d93ed956ccca")
_TICKS = UUID("56cf3b67-9937-5fd9-b90a-e9a2176c2493")
# UUID() alone takes more, such as underscores among the digits: two different ids would be one job.
_UUID = re.compile(
    r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}|[0-9a-f]{32}", re.ASCII | re.IGNORECASE
)


def job_id_of(source: str, event_id: str) -> UUID:
    """The job that the request (source, id) asks for: the id itself if it is a UUID, else a UUIDv5 of both.

    CloudEvents promises that source and id together are unique; a UUID is unique by itself.
    """
    if _UUID.fullmatch(event_id):
        return UUID(event_id)
    return uuid5(_REQUESTS, f"{source}\n{event_id}")


def follow_up_id(parent: UUID, key: str) -> UUID:
    """The job id of the follow-up `key` of `parent`: the same whichever attempt asks for it."""
    return uuid5(parent, f"follow-up\n{key}")


def redrive_id(dead: UUID, number: int) -> UUID:
    """The id of the job that is asked for in place of a dead one, the first time, the second …"""
    return uuid5(dead, f"redrive\n{number}")


def tick_job_id(schedule: str, nominal_at: datetime) -> UUID:
    """The job of one tick: the same whichever scheduler fires it, and however often."""
    return uuid5(_TICKS, f"{schedule}\n{nominal_at.astimezone(UTC).isoformat()}")


def event_job_id(schedule: str, event: UUID) -> UUID:
    """The job of a schedule that an event has started; `event` is `event_identity`."""
    return uuid5(_TICKS, f"{schedule}\n{event}")


def event_identity(source: str, event_id: str) -> UUID:
    """A name for the event (source, id), whatever these look like; the same for its repeat."""
    return uuid5(_TICKS, f"event\n{source}\n{event_id}")
