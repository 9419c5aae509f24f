"""Redrives over dead letters: their progress, their start, and their verbs.

A redrive, a dry run and a drop are all carried out by schedulers, and none of them needs its author to wait.
"""

import asyncio
from collections.abc import Mapping
from datetime import datetime
from typing import Any, Literal
from uuid import UUID

from pydantic import BaseModel, ConfigDict, Field

from warrener.errors import NothingFound
from warrener.operations import noun
from warrener.operations.masking import Masker
from warrener.render.tones import Tone
from warrener.selection import as_uuid
from warrener_contracts.events import (
    JobDropRequested,
    JobDropRequestedData,
    JobRedriveRequested,
    JobRedriveRequestedData,
    RedriveChangeRequested,
    RedriveChangeRequestedData,
)
from warrener_contracts.state_machine import JobState
from warrener_runtime.clock import SystemEntropy
from warrener_store.dead_letters.rows import (
    DeadLetterFilter,
    DeadLetterState,
    RedriveKind,
    RedriveRow,
    RedriveState,
)

_MAX_SEARCHED = 1000
_EXAMINED = 200  # redrives for those of one cause
_POLL_INTERVAL = 0.2  # seconds
_NOT_OVER = (DeadLetterState.OPEN, DeadLetterState.CLAIMED, DeadLetterState.REDRIVEN)
_FAILED = (
    DeadLetterState.DIED_AGAIN,
    DeadLetterState.DIED,
    DeadLetterState.REOPENED,
    DeadLetterState.REJECTED,
)


class RedrivesQuery(noun.NounQuery):
    """The redrives to list."""

    limit: noun.Limit = Field(
        default=20, ge=1, le=1000, description="Maximum number of rows, the newest first."
    )
    fingerprint: str = Field(default="", max_length=12, description="Cause of death that they are about.")


class JournalLine(BaseModel):
    """An entry of a redrive's journal."""

    model_config = ConfigDict(from_attributes=True)

    at: datetime
    by: str
    action: str


class Redrive(BaseModel):
    """A redrive, a dry run or a drop. `counts`: its dead letters by state."""

    redrive_id: UUID
    kind: RedriveKind
    state: RedriveState
    stop_reason: str
    counts: dict[str, int]
    over: int = Field(description="Dead letters to which nothing more happens.")
    total: int
    request: dict[str, Any] = Field(description="Data of the event that requested it.")
    requested_by: str
    reason: str
    requested_at: datetime
    started_at: datetime = Field(description="The time it began, or was resumed.")
    finished_at: datetime | None
    journal: list[JournalLine]

    @property
    def is_over(self) -> bool:
        return self.state in {RedriveState.DONE, RedriveState.STOPPED}

    @property
    def line(self) -> str:
        """Its state, and the numbers of its dead letters."""
        counts = {state.replace("_", " "): count for state, count in self.counts.items() if count}
        if self.kind is RedriveKind.DRY_RUN and "claimed" in counts:
            counts = {"would be requested": counts.pop("claimed"), **counts}
        return ", ".join([self.state.value, *(f"{count:,} {words}" for words, count in counts.items())])


class RedrivesPage(BaseModel):
    """Redrives and drops, the last requested first."""

    redrives: list[Redrive]


def redrive_of(row: RedriveRow, masker: Masker) -> Redrive:
    """Make the redrive of a row, without secrets. Pure."""
    total = sum(row.counts.values())
    fields = noun.fields_from(Redrive, row) | {
        "counts": dict(row.counts),
        "total": total,
        "over": total - sum(row.counts.get(state, 0) for state in _NOT_OVER),
        "request": masker.every.value(row.request),
        "journal": [JournalLine.model_validate(entry) for entry in row.journal],
    }
    return Redrive.model_validate(fields)


async def list_redrives(backend: noun.Backend, query: RedrivesQuery) -> RedrivesPage:
    """List the redrives over dead letters, or show one: request, progress, journal, reason of a stop.

    $ warrener dead-letters redrives
    $ warrener dead-letters redrives 27d25a9
    """
    store, wanted = backend.store.dead_letter_store, query.fingerprint
    rows = await store.redrives(limit=max(query.limit, _EXAMINED) if wanted else query.limit)
    if wanted:
        dead = DeadLetterFilter(states=(), fingerprint=wanted)
        named = {one.redrive_id for one in await store.list_dead_letters(dead)}
        rows = [
            row
            for row in rows
            if row.redrive_id in named or row.request.get("selection", {}).get("fingerprint") == wanted
        ][: query.limit]
    masker = await backend.learn()
    return RedrivesPage(redrives=[redrive_of(row, masker) for row in rows])


async def read_redrive(backend: noun.Backend, text: str) -> Redrive:
    """Show one redrive by its id, or the end of it: its request, its progress and its journal."""
    redrive_id = await _id_of(backend, text)
    rows = await backend.store.dead_letter_store.redrives([redrive_id])
    if not rows:
        raise _not_one(text, 0)
    return redrive_of(rows[0], await backend.learn())


async def _id_of(backend: noun.Backend, text: str) -> UUID:
    """Complete the id of a redrive; a whole one stands for itself. Raises NothingFound."""
    if (whole := as_uuid(text)) is not None:
        return whole
    rows, wanted = await backend.store.dead_letter_store.redrives(limit=_MAX_SEARCHED), text.lower()
    found = [row for row in rows if str(row.redrive_id).endswith(wanted)] or [
        row for row in rows if str(row.redrive_id).startswith(wanted)
    ]
    if len(found) != 1:
        raise _not_one(text, len(found))
    return found[0].redrive_id


def _not_one(text: str, count: int) -> NothingFound:
    return NothingFound(
        f"expected the id of a redrive, or its end, got {text!r:.60}: {count or 'none'} of them; "
        "one that was just requested appears once a scheduler has picked it up",
        do="see `warrener dead-letters redrives`",
    )


# -- verbs -------------------------------------------------------------------------------------------------


async def start(
    call: noun.VerbCall[Any], data: JobRedriveRequestedData | JobDropRequestedData
) -> noun.Outcome:
    """Request a redrive or a drop, which a scheduler begins or refuses; with `progress`, wait for its end.

    An interruption ends the waiting, not the redrive.
    """
    client = await call.backend.client()
    redrive_id = SystemEntropy().new_id()
    envelope = await _envelope(call.backend, redrive_id, redrive_id)
    kind: Any = JobDropRequested if isinstance(data, JobDropRequestedData) else JobRedriveRequested
    await client.send(kind(**envelope, data=data), reply_timeout=call.reply_timeout)
    end = str(redrive_id)[-8:]
    if call.reply_timeout is None:
        confirmed = f"the broker has confirmed redrive {end}"
        sentence = f"{confirmed}, and a scheduler carries it out: warrener dead-letters redrives {end}"
        details: Mapping[str, Any] = {"redrive_id": str(redrive_id)}
        return noun.Outcome(sentence=sentence, details=details, unconfirmed=sentence)
    found, new_job = await follow(call, redrive_id)
    details = found.model_dump(mode="json")
    name = found.kind.value.replace("_", " ")
    if call.progress is None:
        sentence = "; ".join(filter(None, (f"a scheduler carries out {name} {end}: {found.line}", new_job)))
        return noun.Outcome(sentence=sentence, details=details, location=f"/redrives/{redrive_id}")
    is_stopped = found.state is RedriveState.STOPPED
    words = [f"{name} {end} is {found.line}", new_job, found.stop_reason]
    words.append(f"its journal: warrener dead-letters redrives {end}")
    if is_stopped:
        words.append(f"once the cause is mended: warrener dead-letters resume {end}")
    return noun.Outcome(
        accepted=not is_stopped and not any(found.counts.get(state) for state in _FAILED),
        sentence="; ".join(filter(None, words)),
        details=details,
    )


async def follow(call: noun.VerbCall[Any], redrive_id: UUID) -> tuple[Redrive, str]:
    """Read a redrive that a scheduler has begun, and its new job if it has only one. With `progress`, wait
    for its end, or until that job is suspended: a workflow may wait for weeks."""
    store, which = call.backend.store, DeadLetterFilter(states=(), redrive_id=redrive_id, limit=2)
    while True:
        [row] = await store.dead_letter_store.redrives([redrive_id])
        found, new_job = redrive_of(row, await call.backend.learn()), ""
        taken = await store.dead_letter_store.list_dead_letters(which) if found.total == 1 else []
        new_ids = [one.redriven_as for one in taken if one.redriven_as is not None]
        jobs = list((await store.jobs_by_id(new_ids)).values())
        if jobs:
            new_job = f"its new job {jobs[0].job_id} is {jobs[0].state.value}"
        is_suspended = any(job.state is JobState.SUSPENDED for job in jobs)
        if call.progress is None or found.is_over or is_suspended:
            return found, new_job
        call.progress("; ".join(filter(None, (found.line, new_job))))
        await asyncio.sleep(_POLL_INTERVAL)


async def _envelope(backend: noun.Backend, redrive_id: UUID, event_id: UUID) -> dict[str, Any]:
    client = await backend.client()
    return {
        "id": str(event_id),
        "source": client.source,
        "time": await backend.now(),
        "subject": str(redrive_id),
    }


async def stop(call: noun.VerbCall[noun.ActionBody]) -> noun.Outcome:
    """Stop a redrive; the jobs that it has requested go on.

    $ warrener dead-letters stop 27d25a9 --reason "the database is slow today"
    """
    return await _change(call, "stop", "stopped")


async def resume(call: noun.VerbCall[noun.ActionBody]) -> noun.Outcome:
    """Resume a stopped redrive, with a new canary.

    $ warrener dead-letters resume 27d25a9 --reason "mended"
    """
    return await _change(call, "resume", "resumed")


async def _change(
    call: noun.VerbCall[noun.ActionBody], change: Literal["stop", "resume"], done: str
) -> noun.Outcome:
    redrive_id = await _id_of(call.backend, call.key)
    data = RedriveChangeRequestedData(
        redrive_id=redrive_id, change=change, by=call.by, reason=call.body.reason
    )
    event = RedriveChangeRequested(
        **await _envelope(call.backend, redrive_id, SystemEntropy().new_id()), data=data
    )
    await (await call.backend.client()).send(event, reply_timeout=call.reply_timeout)
    return noun.Outcome(
        sentence=f"{done} redrive {str(redrive_id)[-8:]}", details={"redrive_id": str(redrive_id)}
    )


REDRIVES = noun.Noun(
    word="redrive",
    command="dead-letters redrives",
    plural="redrives",
    key="redrive_id",
    key_help="The redrive, or the end of its id.",
    query=RedrivesQuery,
    list=list_redrives,
    read=read_redrive,
    verbs=(
        noun.Verb("stop", noun.ActionBody, stop, signed=True),
        noun.Verb("resume", noun.ActionBody, resume, signed=True),
    ),
    columns={
        "redrive": lambda one: str(one.redrive_id)[-8:],
        "kind": "kind",
        "requested": "requested_at",
        "by": "requested_by",
        "state": "state",
        "dead letters": "counts",
        "why": lambda one: one.stop_reason or one.reason,
    },
    tones={
        RedriveState.CANARY: Tone.LIVE,
        RedriveState.ROLLING: Tone.LIVE,
        RedriveState.STOPPED: Tone.ERROR,
        RedriveState.DONE: Tone.GOOD,
    },
    empty="No redrive yet; `warrener dead-letters redrive` begins one.",
)
