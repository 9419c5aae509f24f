"""Dead letters by cause, the jobs of one cause, and the redrives over them."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Annotated, Self
from uuid import UUID

from fastapi import APIRouter, Query
from pydantic import BaseModel

from warrener.web.access.masking import Masker
from warrener.web.api import ConsoleOfApp
from warrener.web.api.jobs import ErrorSummary
from warrener.web.console import Console
from warrener.web.masked_rows import mask_dead_letter
from warrener.web.page import BadQuery, PageNotFound
from warrener_store.dead_letters.rows import (
    MAX_COUNTED_DEATHS,
    UNRESOLVED,
    DeadLetter,
    DeadLetterFilter,
    DeadLetterState,
    RedriveKind,
    RedriveRow,
    RedriveState,
    UnresolvedCause,
)

MAX_CAUSES = 50
_PAGE_SIZE = 50
_EXAMINED_REDRIVES = 200
_PART, _PARTS = timedelta(hours=6), 28
NO_CAUSE = "none"
"""Stands in an address for the empty fingerprint of deaths whose cause is not known."""


class DeadLetterCause(BaseModel):
    """Unresolved dead letters of one cause.

    `deaths`: their numbers in the equal parts of the last week. `is_counted` is False if there are more than
    `dead_letters`.
    """

    fingerprint: str
    job_type: str
    dead_letters: int
    is_counted: bool
    first_died_at: datetime
    last_died_at: datetime
    error: ErrorSummary | None
    reason: str
    example: UUID
    deaths: list[int]

    @classmethod
    def of(cls, cause: UnresolvedCause, now: datetime, masker: Masker) -> Self:
        """Summarise a cause of the store, without secrets."""
        deaths = [0] * _PARTS
        for hour, count in cause.deaths.items():
            part = int((now - hour) / _PART)
            if 0 <= part < _PARTS:
                deaths[-1 - part] += count
        example = cause.example
        return cls(
            fingerprint=cause.fingerprint,
            job_type=example.job_type,
            dead_letters=cause.dead_letters,
            is_counted=cause.dead_letters < MAX_COUNTED_DEATHS,
            first_died_at=cause.first_died_at,
            last_died_at=example.died_at,
            error=summarise(mask_dead_letter(masker, example)),
            reason=example.reason,
            example=example.job_id,
            deaths=deaths,
        )


class CauseDocument(BaseModel):
    """One cause: its newest dead letters, page by page, and the redrives over them."""

    cause: DeadLetterCause | None
    fingerprint: str
    job_type: str
    dead_letters: list[DeadLetter]
    before: str | None = None
    redrives: list[RedriveRow] = []


class RedriveDocument(BaseModel):
    """A redrive with the newest of its dead letters, and the error that they had."""

    redrive: RedriveRow
    dead_letters: list[DeadLetter]
    total: int
    over: int


def summarise(dead_letter: DeadLetter) -> ErrorSummary | None:
    """The error of a death without its stack."""
    error = dead_letter.error
    return None if error is None else ErrorSummary(type=error.type, message=error.message[:300])


async def list_causes(console: Console, job_type: str = "") -> list[DeadLetterCause]:
    """List the causes of unresolved dead letters, that of the last death first."""
    return await _causes(console, MAX_CAUSES, job_type=job_type or None)


async def _causes(
    console: Console, limit: int, *, fingerprint: str | None = None, job_type: str | None = None
) -> list[DeadLetterCause]:
    now = await console.now()
    found = await console.store.dead_letter_store.unresolved_causes(
        now - _PART * _PARTS, limit, fingerprint=fingerprint, job_type=job_type
    )
    return [DeadLetterCause.of(cause, now, console.masker) for cause in found]


async def read_cause(
    console: Console, fingerprint: str, *, state: str = "", before: str = ""
) -> CauseDocument:
    """Read one cause by its fingerprint. Raises PageNotFound, BadQuery."""
    store = console.store.dead_letter_store
    wanted = "" if fingerprint == NO_CAUSE else fingerprint
    states = _states(state)
    which = DeadLetterFilter(states=states, fingerprint=wanted, after=_position(before), limit=_PAGE_SIZE + 1)
    found = await store.list_dead_letters(which)
    cause = next(iter(await _causes(console, 1, fingerprint=wanted)), None)
    if cause is None and not found and not await _ever_died(console, wanted):
        raise PageNotFound(
            f"expected the cause of a dead letter, got {fingerprint!r:.40}: no dead letter has it; "
            "look at the list of dead letters"
        )
    shown = [mask_dead_letter(console.masker, one) for one in found[:_PAGE_SIZE]]
    job_type = cause.job_type if cause else shown[0].job_type if shown else ""
    return CauseDocument.model_construct(
        cause=cause,
        fingerprint=wanted,
        job_type=job_type,
        dead_letters=shown,
        before=_cursor(shown[-1]) if len(found) > _PAGE_SIZE else None,
        redrives=await _redrives_of(console, wanted, shown),
    )


async def _ever_died(console: Console, fingerprint: str) -> bool:
    which = DeadLetterFilter(states=(), fingerprint=fingerprint, limit=1)
    return bool(await console.store.dead_letter_store.list_dead_letters(which))


async def _redrives_of(console: Console, fingerprint: str, shown: Sequence[DeadLetter]) -> list[RedriveRow]:
    """The redrives that select this cause, and those of the dead letters shown; the newest first."""
    rows = await console.store.dead_letter_store.redrives(limit=_EXAMINED_REDRIVES)
    named = {dead_letter.redrive_id for dead_letter in shown}
    return [
        row
        for row in rows
        if row.redrive_id in named
        or (fingerprint and row.request.get("selection", {}).get("fingerprint") == fingerprint)
    ][:20]


async def list_redrives(console: Console, limit: int = 20) -> list[RedriveRow]:
    """List redrives and drops, the last requested first."""
    rows = await console.store.dead_letter_store.redrives(limit=limit)
    return [mask_redrive(console, row) for row in rows]


def mask_redrive(console: Console, row: RedriveRow) -> RedriveRow:
    """The redrive with its edits of arguments masked."""
    return replace(row, request=console.masker.value(row.request))


async def read_redrive(console: Console, redrive_id: UUID) -> RedriveDocument:
    """Read one redrive and the newest of its dead letters. Raises PageNotFound."""
    store = console.store.dead_letter_store
    rows = await store.redrives([redrive_id])
    if not rows:
        raise PageNotFound(
            f"expected the id of a redrive, got {redrive_id}: the store has none of it; a redrive that was "
            "just requested appears once a scheduler has picked it up"
        )
    which = DeadLetterFilter(states=(), redrive_id=redrive_id, limit=_PAGE_SIZE)
    total = sum(rows[0].counts.values())
    waiting = sum(rows[0].counts.get(state.value, 0) for state in _NOT_OVER)
    return RedriveDocument.model_construct(
        redrive=mask_redrive(console, rows[0]),
        dead_letters=[mask_dead_letter(console.masker, one) for one in await store.list_dead_letters(which)],
        total=total,
        over=total - waiting,
    )


_NOT_OVER = (DeadLetterState.OPEN, DeadLetterState.CLAIMED, DeadLetterState.REDRIVEN)


def is_over(redrive: RedriveRow) -> bool:
    """True if nothing more happens to the redrive by itself."""
    return redrive.state in {RedriveState.DONE, RedriveState.STOPPED}


def is_dry_run(redrive: RedriveRow) -> bool:
    """True if the redrive checks and counts alone."""
    return redrive.kind is RedriveKind.DRY_RUN


def _states(text: str) -> tuple[DeadLetterState, ...]:
    if text == "all":
        return ()
    try:
        return (DeadLetterState(text),) if text else UNRESOLVED
    except ValueError:
        raise BadQuery(
            f"state: expected one of {', '.join(DeadLetterState)} or all, got {text!r:.40}"
        ) from None


def _cursor(dead_letter: DeadLetter) -> str:
    return f"{dead_letter.died_at.isoformat()}_{dead_letter.job_id}"


def _position(text: str) -> tuple[datetime, UUID] | None:
    if not text:
        return None
    moment, _, job_id = text.partition("_")
    try:
        return datetime.fromisoformat(moment), UUID(job_id)
    except ValueError:
        raise BadQuery(
            f"before: expected the place of a dead letter in its list, got {text!r:.60}; "
            "begin at the first page"
        ) from None


router = APIRouter(tags=["dead letters"])


@router.get("/dead-letters")
async def get_causes(
    console: ConsoleOfApp, job_type: Annotated[str, Query(alias="type")] = ""
) -> list[DeadLetterCause]:
    """List the causes of unresolved dead letters, that of the last death first."""
    return await list_causes(console, job_type)


@router.get("/dead-letters/{fingerprint}")
async def get_cause(
    console: ConsoleOfApp, fingerprint: str, state: str = "", before: str = ""
) -> CauseDocument:
    """One cause with its dead letters. `none`: those whose cause is not known."""
    return await read_cause(console, fingerprint, state=state, before=before)


@router.get("/redrives")
async def get_redrives(
    console: ConsoleOfApp, limit: Annotated[int, Query(ge=1, le=200)] = 20
) -> list[RedriveRow]:
    """List redrives and drops, the last requested first."""
    return await list_redrives(console, limit)


@router.get("/redrives/{redrive_id}")
async def get_redrive(console: ConsoleOfApp, redrive_id: UUID) -> RedriveDocument:
    """One redrive: its request, its progress, its journal, and its newest dead letters."""
    return await read_redrive(console, redrive_id)
