"""Ids of jobs and events, derived from their origin so that a repeat is recognised."""

import re
from datetime import UTC, datetime
from hashlib import blake2b
from uuid import UUID, uuid5

# uuid5(NAMESPACE_DNS, "warrener.requests" and "warrener.ticks"). Fixed: with others, repeats would look new.
_REQUESTS = UUID("ab072b26-5e10-5f7a-9430-d93ed956ccca")
_TICKS = UUID("56cf3b67-9937-5fd9-b90a-e9a2176c2493")
_SCHEDULE_SOURCE = "warrener/schedule/"
_HANDLER_SOURCE = "warrener/job/"
DETACHED_SOURCE = "warrener/detached/"
UNDO_SOURCE = "warrener/undo/"
# UUID() accepts more forms, such as underscores among the digits, so two different ids could be one job.
_UUID = re.compile(
    r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}|[0-9a-f]{32}", re.ASCII | re.IGNORECASE
)


def job_id_of(source: str, event_id: str) -> UUID:
    """The job id of the request (source, id): the id itself if it is a UUID, else a UUIDv5 of both.

    CloudEvents promises that source and id together are unique; a UUID is unique by itself.
    """
    if _UUID.fullmatch(event_id):
        return UUID(event_id)
    return uuid5(_REQUESTS, f"{source}\n{event_id}")


def child_job_id(parent: UUID, key: str) -> UUID:
    """The job id of the child `key` of `parent`: the same in every attempt."""
    return uuid5(parent, f"child\n{key}")


def sent_signal_id(sender: UUID, call_id: str) -> UUID:
    """The id of the signal that a call of the workflow `sender` sends."""
    return uuid5(sender, f"signal\n{call_id}")


def undo_job_id(parent: UUID, call_id: str) -> UUID:
    """The id of the job that undoes a call of the workflow `parent`."""
    return uuid5(parent, f"undo\n{call_id}")


def redrive_job_id(dead: UUID, number: int) -> UUID:
    """The id of the job that the n-th redrive of a dead job makes."""
    return uuid5(dead, f"redrive\n{number}")


def attempt_span_id(job_id: UUID, attempt: int, agent_id: str) -> str:
    """The identifier, in hexadecimal, of the span in which an agent runs an attempt.

    It is derived, so that the supervisor can record the span of an attempt that was lost with its agent, and
    the spans below it find their parent.
    """
    digest = blake2b(b"%b%d\n%b" % (job_id.bytes, attempt, agent_id.encode()), digest_size=8).hexdigest()
    return digest if digest.strip("0") else "1".zfill(16)


def tick_job_id(schedule: str, nominal_at: datetime, secret: str) -> UUID:
    """The job id of one tick: the same in every scheduler of the installation that has this `secret`, and in
    every repeat. Nobody else can foresee it, and cancel the job before it is requested."""
    return _secret_id(f"{schedule}\n{nominal_at.astimezone(UTC).isoformat()}", secret)


def event_job_id(schedule: str, event: UUID, secret: str) -> UUID:
    """The job id of a schedule that an event triggers; `event` is `event_identity`."""
    return _secret_id(f"{schedule}\n{event}", secret)


def _secret_id(text: str, secret: str) -> UUID:
    key = secret.encode()  # blake2b takes up to 64 bytes
    return UUID(bytes=blake2b(text.encode(), key=key, digest_size=16).digest(), version=5)


def event_identity(source: str, event_id: str) -> UUID:
    """A UUID for the event (source, id) with any kind of id; the same for its repeat."""
    return uuid5(_TICKS, f"event\n{source}\n{event_id}")


def schedule_source(schedule: str) -> str:
    """The source of the requests of a schedule."""
    return f"{_SCHEDULE_SOURCE}{schedule}"


def child_source(parent: UUID, *, detached: bool = False) -> str:
    """The source of the requests of a handler. A detached child job goes on when the workflow `parent`
    ends."""
    return f"{DETACHED_SOURCE if detached else _HANDLER_SOURCE}{parent}"


def undo_source(parent: UUID) -> str:
    """The source of the requests that undo calls of the workflow `parent`: a cancel of its tree spares
    them."""
    return f"{UNDO_SOURCE}{parent}"


def schedule_from_source(source: str) -> str | None:
    """The schedule whose requests have this source; None for any other source."""
    name = source.removeprefix(_SCHEDULE_SOURCE)
    return name if name != source else None
