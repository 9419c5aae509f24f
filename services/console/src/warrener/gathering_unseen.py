"""Gather the facts of an id or a name for which the store has no row."""

import json
from collections.abc import AsyncIterator, Iterator, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, cast
from uuid import UUID

from warrener.explanations.facts import ScheduleFacts, SystemFacts, UnseenFacts
from warrener.selection import as_uuid
from warrener_contracts.identity import job_id_of
from warrener_store.dead_letters.rows import DeadLetterFilter
from warrener_store.parked.rows import ParkedAt, ParkedFilter, ParkedMessage
from warrener_store.retention.rows import JobsBefore

if TYPE_CHECKING:
    from warrener_store import Store

_PARKED_PAGE, _SEARCHED_PARKED = 200, 2000
_MAX_GROUPS = 50  # job types and states whose oldest job is looked up
_MAX_SCHEDULES = 100
_TICKS = 50


async def gather_unseen(
    store: "Store", system: SystemFacts, text: str, kind: str
) -> ScheduleFacts | UnseenFacts:
    """Gather what parked messages, dead letters and ticks say of this id or name."""
    parked, searched = await find_parked(store, text)
    if kind == "schedule" or (parked is not None and _puts_schedule(parked, text)):
        refused = [message async for message in _parked(store) if _puts_schedule(message, text)]
        return ScheduleFacts(system=system, name=text, refused=refused[0] if refused else None)
    found = UnseenFacts(system=system, text=text, parked=parked, searched=searched)
    job_id = as_uuid(text)
    if job_id is None or parked is not None:
        return found
    milliseconds = job_id.int >> 80  # of a UUIDv7
    return replace(
        found,
        made_at=datetime.fromtimestamp(milliseconds / 1000, UTC) if job_id.version == 7 else None,
        oldest_job_at=await _oldest_job_at(store, system.now),
        known_from=await _known_from(store, job_id),
    )


async def find_parked(store: "Store", text: str) -> tuple[ParkedMessage | None, int]:
    """The newest parked message with an event of this id or name, and how many were read."""
    searched, wanted = 0, as_uuid(text)
    async for message in _parked(store):
        searched += 1
        if any(_is_named(event, text, wanted) for event in _events(message.body)):
            return message, searched
    return None, searched


async def _parked(store: "Store") -> AsyncIterator[ParkedMessage]:
    after: ParkedAt | None = None
    for _ in range(_SEARCHED_PARKED // _PARKED_PAGE):
        page = await store.parked(ParkedFilter(), _PARKED_PAGE, after)
        for message in page:
            yield message
        if len(page) < _PARKED_PAGE:
            return
        after = ParkedAt(page[-1].parked_at, page[-1].parked_id)


def _events(body: bytes) -> Iterator[Mapping[str, Any]]:
    """The events of a body, or of each element of a batch, as far as they are JSON objects."""
    try:
        found: object = json.loads(body)
    except ValueError:
        return
    for each in cast("list[object]", found) if isinstance(found, list) else [found]:
        if isinstance(each, dict):
            yield cast("dict[str, Any]", each)


def _is_named(event: Mapping[str, Any], text: str, wanted: UUID | None) -> bool:
    """True if the event has this id, is about it, or requests the job that has it."""
    given: object = event.get("data")
    data = cast("dict[str, Any]", given) if isinstance(given, dict) else {}
    named = {str(event.get("id")), str(event.get("subject")), str(data.get("job_id")), str(data.get("name"))}
    if text in named:
        return True
    event_id, source = event.get("id"), event.get("source")
    if wanted is None or not isinstance(event_id, str) or not isinstance(source, str):
        return False
    return str(wanted) in named or job_id_of(source, event_id) == wanted


def _puts_schedule(parked: ParkedMessage, text: str) -> bool:
    return any(
        str(event.get("type", "")).startswith("schedule.put") and text == str(event["data"].get("name"))
        for event in _events(parked.body)
        if isinstance(event.get("data"), dict)
    )


async def _oldest_job_at(store: "Store", now: datetime) -> datetime | None:
    """When the oldest job that is over was accepted."""
    counts = [count for count in await store.count_jobs() if count.jobs and count.state.terminal]
    groups = sorted({(count.job_type, count.state) for count in counts})
    found: list[datetime] = []
    for job_type, state in groups[:_MAX_GROUPS]:
        which = JobsBefore(job_type, state, finished=now, keyed=now)
        page = await store.retention.old_jobs(which, None, 1)
        if page.after is not None:
            found.append(page.after[0])
    return min(found, default=None) if len(groups) <= _MAX_GROUPS else None


async def _known_from(store: "Store", job_id: UUID) -> str | None:
    """The place that names a job whose row is gone: a redriven dead letter, or a tick."""
    redriven = DeadLetterFilter(states=(), redriven_as=(job_id,), limit=1)
    if found := await store.dead_letter_store.list_dead_letters(redriven):
        return f"the dead letter of job {found[0].job_id}"
    for schedule in sorted(await store.schedules())[:_MAX_SCHEDULES]:
        for tick in await store.ticks_of(schedule, _TICKS):
            if tick.job_id == job_id and tick.fired_at is not None:
                return f"a tick of schedule {schedule}"
    return None
