"""Jobs, schedules, dead letters and redrives that a person names on the command line, found in the store."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated
from uuid import UUID

import typer

from warrener.errors import CommandError, ExitCode
from warrener.options import parse_ago, report_invalid_fields

if TYPE_CHECKING:
    from warrener_contracts.events import DeadLetterSelection
    from warrener_store import StateStore, Store
    from warrener_store.dead_letters.rows import DeadLetterFilter
    from warrener_store.jobs.rows import JobRow
    from warrener_store.schedules.rows import ScheduleRow

_MAX_SEARCHED = 1000
_MAX_CANDIDATES = 10

Ids = Annotated[
    list[str] | None,
    typer.Argument(metavar="[ID]...", help="Dead jobs: their ids, parts of them, or ids of the requests."),
]
Cause = Annotated[
    str | None,
    typer.Option("--fingerprint", metavar="CAUSE", help="Cause of death; its beginning is enough."),
]
JobType = Annotated[str | None, typer.Option("--type", metavar="TYPE", help="Job type.")]
Since = Annotated[str | None, typer.Option("--since", metavar="2h", help="Maximum time since the death.")]
Everything = Annotated[bool, typer.Option("--all", help="All of them.")]


async def find_job(store: "StateStore", text: str) -> "JobRow":
    """Find a job by its id, a part of it, the id that its requester chose, or its idempotency key.

    Raises CommandError.
    """
    from warrener_store.jobs.job_search import MIN_LENGTH

    found = await search_job(store, text)
    if found is not None:
        return found
    if as_uuid(text) is not None:
        raise CommandError(
            f"expected the id of a job the store knows, got {text}: no scheduler has accepted it yet",
            do="look at `warrener parked`, or check with `warrener doctor` that a scheduler runs",
        )
    short = f", and its beginning or end needs {MIN_LENGTH} characters" if len(text) < MIN_LENGTH else ""
    raise CommandError(
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
    raise CommandError(
        f"expected one job with an id like {text!r}, got {more}{len(named)}:{lines}",
        do="give one of these ids",
        code=ExitCode.USAGE,
    )


def _matching_ids(text: str, ids: Sequence[UUID]) -> list[UUID]:
    """The ids that end like this; if none does, those that begin so."""
    wanted = text.lower()
    return [one for one in ids if str(one).endswith(wanted)] or [
        one for one in ids if str(one).startswith(wanted)
    ]


def as_uuid(text: str) -> UUID | None:
    """The id, if the text is a whole one."""
    try:
        return UUID(text)
    except ValueError:
        return None


async def find_schedule(store: "Store", name: str) -> "ScheduleRow":
    """Find a schedule by its name. Raises CommandError."""
    return (await find_schedules(store, [name]))[name]


async def find_schedules(
    store: "Store", names: Sequence[str], *, code: ExitCode = ExitCode.FAILED
) -> "Mapping[str, ScheduleRow]":
    """Find schedules by name, all without names. Raises CommandError with `code` for unknown names."""
    rows = await store.schedules(names or None)
    if unknown := [name for name in names if name not in rows]:
        raise CommandError(
            f"expected names of schedules that the store knows, got {', '.join(map(repr, unknown))}",
            do="look at `warrener schedule list`",
            code=code,
        )
    return rows


async def select_dead_letters(
    store: "StateStore",
    ids: Sequence[str],
    *,
    cause: str | None = None,
    job_type: str | None = None,
    since: str | None = None,
    everything: bool = False,
) -> "DeadLetterSelection":
    """Resolve the selection to whole ids and one cause. Raises CommandError if there is none."""
    from warrener_contracts.events import DeadLetterSelection

    if not (ids or cause or job_type or since or everything):
        raise CommandError(
            "expected a selection of dead letters, got none",
            do="give ids, --fingerprint, --type or --since; or --all",
            code=ExitCode.USAGE,
        )
    found = [(await find_job(store, text)).job_id for text in ids]
    with report_invalid_fields():
        return DeadLetterSelection(
            job_ids=tuple(found),
            fingerprint=await resolve_cause(store, cause),
            job_type=job_type,
            died_after=parse_ago(since),
        )


def to_filter(which: "DeadLetterSelection") -> "DeadLetterFilter":
    """The same selection as a filter of the store."""
    from warrener_store.dead_letters.rows import DeadLetterFilter

    return DeadLetterFilter(
        job_ids=which.job_ids,
        fingerprint=which.fingerprint,
        job_type=which.job_type,
        died_after=which.died_after,
    )


async def resolve_cause(store: "StateStore", text: str | None) -> str | None:
    """Find the one fingerprint that begins like this. Raises CommandError."""
    from warrener_store.dead_letters.rows import DeadLetterFilter

    if text is None:
        return None
    groups = await store.dead_letter_store.group_dead_letters(DeadLetterFilter(states=(), limit=10_000))
    found = {group.fingerprint for group in groups if group.fingerprint.startswith(text.lower())}
    if len(found) != 1:
        raise CommandError(
            f"expected one cause that begins with {text!r}, got {len(found) or 'none'}",
            do="see `warrener dead-letters list --group-by fingerprint`",
        )
    return found.pop()


async def resolve_redrive(store: "StateStore", text: str) -> UUID:
    """Find the one redrive whose id ends (or begins) like this. Raises CommandError."""
    rows = await store.dead_letter_store.redrives(limit=_MAX_SEARCHED)
    found = _matching_ids(text, [row.redrive_id for row in rows])
    if len(found) != 1:
        raise CommandError(
            f"expected the id of a redrive, or its end, got {text!r}: {len(found) or 'none'} of them",
            do="see `warrener dead-letters redrives`",
        )
    return found[0]
