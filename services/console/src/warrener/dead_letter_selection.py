"""Which dead letters a person means."""

import getpass
import socket
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Annotated
from uuid import UUID

import typer
from pydantic import ValidationError

from warrener.errors import CommandError, ExitCode
from warrener.job_lookup import find_job
from warrener_contracts.durations import parse_duration
from warrener_contracts.events import DeadLetterSelection
from warrener_store import StateStore
from warrener_store.dead_letters.rows import DeadLetterFilter

Ids = Annotated[
    list[str] | None, typer.Argument(metavar="[ID]...", help="Dead jobs, or the ends of their ids.")
]
Cause = Annotated[
    str | None,
    typer.Option("--fingerprint", metavar="CAUSE", help="Of this cause; its beginning is enough."),
]
JobType = Annotated[str | None, typer.Option("--type", metavar="TYPE", help="Of this job type.")]
Since = Annotated[str | None, typer.Option("--since", metavar="2h", help="That died within this time.")]
Everything = Annotated[bool, typer.Option("--all", help="All of them.")]
By = Annotated[str | None, typer.Option("--by", metavar="NAME", help="Who asks; else you@here. It is kept.")]


async def select_dead_letters(
    store: StateStore,
    ids: Sequence[str],
    *,
    cause: str | None = None,
    job_type: str | None = None,
    since: str | None = None,
    everything: bool = False,
) -> DeadLetterSelection:
    """What was said, with whole ids. Raises CommandError where nothing was, and that was not meant."""
    if not (ids or cause or job_type or since or everything):
        raise CommandError(
            "expected which dead letters are meant, got nothing",
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


@contextmanager
def report_invalid_fields() -> Generator[None]:
    """What the wire would refuse is said here, by the name of the field."""
    try:
        yield
    except ValidationError as error:
        first = error.errors()[0]
        field = ".".join(str(part) for part in first["loc"])
        raise CommandError(f"{field}: {first['msg']}, got {first['input']!r}", code=ExitCode.USAGE) from error


def to_filter(which: DeadLetterSelection) -> DeadLetterFilter:
    """The same as a question to the store."""
    return DeadLetterFilter(
        job_ids=which.job_ids,
        fingerprint=which.fingerprint,
        job_type=which.job_type,
        died_after=which.died_after,
    )


async def resolve_cause(store: StateStore, text: str | None) -> str | None:
    """The one fingerprint that begins like this."""
    if text is None:
        return None
    groups = await store.dead_letter_store.group_dead_letters(DeadLetterFilter(states=(), limit=10_000))
    found = {group.fingerprint for group in groups if group.fingerprint.startswith(text.lower())}
    if len(found) != 1:
        raise CommandError(
            f"expected one cause that begins with {text!r}, got {len(found) or 'none'}",
            do="see `warrener dead list --by fingerprint`",
        )
    return found.pop()


async def resolve_redrive(store: StateStore, text: str) -> UUID:
    """The one campaign whose id ends (or begins) like this."""
    rows = await store.dead_letter_store.campaigns(limit=1000)
    ids = [row.campaign_id for row in rows if str(row.campaign_id).endswith(text.lower())]
    ids = ids or [row.campaign_id for row in rows if str(row.campaign_id).startswith(text.lower())]
    if len(ids) != 1:
        raise CommandError(
            f"expected the id of a campaign, or its end, got {text!r}: {len(ids) or 'none'} of them",
            do="see `warrener dead campaigns`",
        )
    return ids[0]


def parse_ago(span: str | None) -> datetime | None:
    """So long ago."""
    if span is None:
        return None
    try:
        return datetime.now(UTC) - parse_duration(span)
    except ValueError as error:
        raise CommandError(
            f"expected a time such as 90s, 2h or P1D, got {span!r}", code=ExitCode.USAGE
        ) from error


def current_user() -> str:
    """The person at this terminal, as far as the machine knows."""
    try:
        return f"{getpass.getuser()}@{socket.gethostname()}"
    except (OSError, KeyError):  # a container may have no name for its user
        return f"somebody@{socket.gethostname()}"
