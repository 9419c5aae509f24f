"""Jobs and schedules that a person names on the command line, found in the store."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING
from uuid import UUID

from warrener.errors import ExitCode, NothingFound, UsageError

if TYPE_CHECKING:
    from warrener.context import ResolvedEndpoints
    from warrener_store import StateStore, Store
    from warrener_store.jobs.rows import JobRow
    from warrener_store.schedules.rows import ScheduleRow

_MAX_CANDIDATES = 10
_HINT_TIMEOUT = 5.0  # seconds


async def find_job(store: "StateStore", text: str) -> "JobRow":
    """Find a job by its id, a part of it, the id that its requester chose, or its idempotency key.

    Raises CommandError.
    """
    from warrener_store.jobs.job_search import MIN_LENGTH

    found = await search_job(store, text)
    if found is not None:
        return found
    if as_uuid(text) is not None:
        raise NothingFound(
            f"expected the id of a job the store knows, got {text}: no scheduler has accepted it yet",
            do="look at `warrener parked`, or check with `warrener doctor` that a scheduler runs",
        )
    short = f", and its beginning or end needs {MIN_LENGTH} characters" if len(text) < MIN_LENGTH else ""
    raise NothingFound(
        f"expected the id of a job, its beginning or end, the id of its request, or its idempotency key, "
        f"got {text!r}: no job has it{short}",
        do="copy it from `warrener jobs`",
        code=ExitCode.USAGE if short else ExitCode.FAILED,
    )


async def search_job(store: "StateStore", text: str) -> "JobRow | None":
    """Find a job as `find_job` does; None if there is none. Raises CommandError for several."""
    if (job_id := as_uuid(text)) is not None:
        found = await store.jobs_by_id([job_id])
        if job_id in found:
            return found[job_id]  # also if that of another request, or a key, is the same
    named = await store.find_jobs(text, _MAX_CANDIDATES + 1)
    if len(named) <= 1:
        return named[0] if named else None
    more = "at least " if len(named) > _MAX_CANDIDATES else ""
    lines = "".join(f"\n  {row.job_id}  {row.state.value}  {row.job_type}" for row in named[:_MAX_CANDIDATES])
    raise UsageError(
        f"expected one job with an id like {text!r}, got {more}{len(named)}:{lines}",
        do="give one of these ids",
    )


async def find_job_id(store: "StateStore", text: str) -> UUID:
    """Find the id of a job as `find_job` does; a whole one that the store does not know stands for itself, as
    a service may know it, or refuses it. Raises CommandError."""
    whole, found = as_uuid(text), await search_job(store, text)
    if found is None and whole is not None:
        return whole
    return (found or await find_job(store, text)).job_id


def as_uuid(text: str) -> UUID | None:
    try:
        return UUID(text)
    except ValueError:
        return None


async def suggest_job_type(store: "StateStore", name: str) -> str:
    """`did you mean flights.load?` for a name that looks like that of a job type; empty if it is one, or none
    looks like it."""
    from difflib import get_close_matches

    known = await store.job_types() if name else {}
    close = [] if name in known else get_close_matches(name, known, n=1)
    return f"did you mean {close[0]}?" if close else ""


async def hint_at_job_type(endpoints: "ResolvedEndpoints", name: str) -> str:
    """As `suggest_job_type`, for a command that has no store open; empty if the store does not answer."""
    from warrener.context import connect_store

    try:
        async with asyncio.timeout(_HINT_TIMEOUT), connect_store(endpoints) as store:
            return await suggest_job_type(store, name)
    except Exception:  # noqa: BLE001 - a hint beside an error must not replace it
        return ""


async def find_schedule(store: "Store", name: str) -> "ScheduleRow":
    return (await find_schedules(store, [name]))[name]


async def find_schedules(
    store: "Store", names: Sequence[str], *, code: ExitCode = ExitCode.FAILED
) -> "Mapping[str, ScheduleRow]":
    """Find schedules by name, all without names. Raises NothingFound with `code` for unknown names."""
    rows = await store.schedules(names or None)
    if unknown := [name for name in names if name not in rows]:
        raise NothingFound(
            f"expected names of schedules that the store knows, got {', '.join(map(repr, unknown))}",
            do="look at `warrener schedule list`",
            code=code,
        )
    return rows
