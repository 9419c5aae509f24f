"""Dead letters, jobs whose attempts are used up, and their causes; redriven or dropped, many at a time."""

from dataclasses import replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Annotated, Any, Self
from uuid import UUID

from pydantic import BaseModel, BeforeValidator, Field, StringConstraints, model_validator

from warrener.errors import NothingFound
from warrener.operations import noun
from warrener.operations.job import JobDetails, read_job
from warrener.operations.masking import mask_dead_letter
from warrener.operations.redrives import start
from warrener.operations.roles import Role
from warrener.options import parse_policy_options, read_object
from warrener.render.jobs import id_text
from warrener.render.screen import WIDE, out
from warrener.render.tones import Tone
from warrener.selection import find_job_id
from warrener_contracts import events
from warrener_store.dead_letters import rows

if TYPE_CHECKING:
    from warrener_store import Store

_MAX_GROUPS = 10_000
_PART, _PARTS = timedelta(hours=6), 28
NO_CAUSE = "none"  # stands in an address for the empty fingerprint of deaths whose cause is not known
_CAUSE = "Cause of death; its beginning is enough."
_SINCE = "Maximum time since the death, such as 2h."


class DeadLettersQuery(noun.ListQuery):
    """The dead letters to list."""

    fingerprint: str = Field(default="", max_length=40, description=_CAUSE)
    job_type: Annotated[str, noun.Flag("--type")] = Field(default="", max_length=200, description="Job type.")
    since: noun.Time = Field(default=None, description=_SINCE)
    redrive_id: Annotated[UUID | None, noun.Flag("--redrive")] = Field(
        default=None, description="Whole id of the redrive that was the last to take them."
    )
    state: rows.DeadLetterState | None = Field(
        default=None, description=f"State (default: the unresolved ones): {', '.join(rows.DeadLetterState)}."
    )
    everything: Annotated[bool, noun.Flag("--all")] = Field(default=False, description="Also resolved ones.")


class DeadLettersPage(BaseModel):
    """A page of dead letters, the last that died first. `next`: pass it as `after`."""

    dead_letters: list[rows.DeadLetter]
    next: str | None = None


async def list_dead_letters(backend: noun.Backend, query: DeadLettersQuery) -> DeadLettersPage:
    """List the unresolved dead letters, the newest first.

    $ warrener dead-letters list --fingerprint 9f86d0
    $ warrener dead-letters list --type flights.load --since 2h --json
    """
    unresolved = () if query.everything else rows.UNRESOLVED
    cause = await find_fingerprint(backend.store, query.fingerprint) if query.fingerprint else None
    which = rows.DeadLetterFilter(
        states=unresolved if query.state is None else (query.state,),
        fingerprint=cause,
        job_type=query.job_type or None,
        died_after=query.since,
        redrive_id=query.redrive_id,
        after=noun.read_position(query.after, lambda moment, key: (moment, UUID(key))),
        limit=query.limit + 1,
    )
    found = await backend.store.dead_letter_store.list_dead_letters(which)
    shown, following = noun.cut_page(found, query.limit, lambda one: (one.died_at, one.job_id))
    masker = await backend.learn()
    masked = [mask_dead_letter(masker, one) for one in shown]
    return DeadLettersPage(dead_letters=masked, next=following)


async def read_dead_letter(backend: noun.Backend, job_id: str) -> JobDetails:
    """Show one dead letter.

    The job with its arguments, policy and trace, each attempt with its error and stack, the cause, and the
    redrive or drop.

    $ warrener dead-letters show 456789ab
    """
    found = await read_job(backend, job_id)
    if found.dead_letter is None:
        raise NothingFound(
            f"expected a dead job, got {found.job_id}, which is {found.state.value}",
            do=f"look with `warrener job {found.job_id}`",
        )
    return found


async def read_example(backend: noun.Backend, job_id: UUID) -> tuple[rows.DeadLetter, events.JsonObject]:
    """Read a dead letter and the arguments of its job, without secrets."""
    which = rows.DeadLetterFilter(states=(), job_ids=(job_id,), limit=1)
    found = await backend.store.dead_letter_store.list_dead_letters(which)
    job = (await backend.store.jobs_by_id([job_id])).get(job_id)
    if not found or job is None:
        raise NothingFound(f"expected a dead job, got {job_id}, which is no longer stored")
    masker = await backend.learn()
    return mask_dead_letter(masker, found[0]), masker.of(job.job_type).value(job.arguments)


# -- verbs -------------------------------------------------------------------------------------------------


class _Selection(noun.Selection):
    """The dead letters: those of these jobs, or all that meet these conditions."""

    fingerprint: str = Field(default="", max_length=40, description=_CAUSE)
    job_type: Annotated[str, noun.Flag("--type")] = Field(default="", max_length=200, description="Job type.")
    since: noun.Time = Field(default=None, description=_SINCE)
    everything: Annotated[bool, noun.Flag("--all")] = Field(default=False, description="All of them.")

    @model_validator(mode="after")
    def _check_selection(self) -> Self:
        if not any((self.ids, self.fingerprint, self.job_type, self.since, self.everything)):
            raise ValueError(
                "expected a selection of dead letters, got none; give ids, --fingerprint, --type or --since; "
                "or --all"
            )
        return self

    @property
    def conditions(self) -> str:
        return " ".join(filter(None, (self.fingerprint, self.job_type))) or "all"


class RedriveBody(_Selection):
    """Request dead jobs again, a canary of them first."""

    limit: Annotated[int | None, noun.Flag("--limit", "-n")] = Field(
        default=None, ge=1, description="Maximum number of jobs."
    )
    dry_run: bool = Field(default=False, description="Check and count everything, request nothing.")
    edits: Annotated[dict[str, Any], BeforeValidator(read_object), noun.Flag("--set")] = Field(
        default_factory=dict[str, Any], description="New value of an argument; null leaves it out."
    )
    unset: noun.Keys = Field(default_factory=list[str], description="Argument to leave out.")
    queue: str | None = Field(default=None, description="Queue (default: that of each dead job).")
    policy: str | None = Field(
        default=None, description="JSON: policy fields that replace those of the job type."
    )
    canary: int = Field(default=10, ge=0, le=1000, description="Number of jobs to finish before all others.")
    rate: float = Field(default=20.0, gt=0, le=1000, description="Jobs a second after the canary.")
    max_failures: int = Field(
        default=0, ge=0, description="Number of jobs that may die again before the redrive stops."
    )
    even_if_succeeded: bool = Field(default=False, description="Also jobs whose request has succeeded since.")


class DropBody(_Selection):
    """Mark dead letters as never to be redriven."""

    reason: Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=500)] = Field(
        description="Reason, stored with each dead letter."
    )


async def redrive(call: noun.VerbCall[RedriveBody]) -> noun.Outcome:
    """Redrive dead letters: request their jobs again, safely.

    A canary runs first; if none of it dies, the others follow at a rate. The redrive stops by itself when
    their cause of death comes back. A scheduler carries it out, so this command may be interrupted.

    $ warrener dead-letters redrive --fingerprint 9f86d0 --dry-run
    $ warrener dead-letters redrive --fingerprint 9f86d0 --reason "mended in release 42"
    $ warrener dead-letters redrive 456789ab --set path=2013-01-02.csv --unset carrier
    """
    body = call.body
    which = await _select(call)
    fields = noun.fields_from(events.JobRedriveRequestedData, body) | {
        "selection": which,
        "edits": {**body.edits, **dict.fromkeys(body.unset)},
        "policy": parse_policy_options(body.policy),
        "by": call.by,
    }
    outcome = await start(call, events.JobRedriveRequestedData.model_validate(fields))
    if not body.dry_run:
        return outcome
    found = await _group(call, which)
    return replace(outcome, details={**outcome.details, "groups": found.groups})


async def drop(call: noun.VerbCall[DropBody]) -> noun.Outcome:
    """Drop dead letters: mark them as never to be redriven. Without --yes the command only shows them.

    They stay readable (`warrener dead-letters list --all`), with the person and the reason.

    $ warrener dead-letters drop --fingerprint 9f86d0 --reason "the files were withdrawn" --yes
    """
    data = events.JobDropRequestedData(selection=await _select(call), by=call.by, reason=call.body.reason)
    return await start(call, data)


async def preview(call: noun.VerbCall[DropBody]) -> noun.Preview:
    """Count the dead letters of a selection, by cause and job type."""
    return await _group(call, await _select(call))


async def _group(call: noun.VerbCall[Any], which: events.DeadLetterSelection) -> noun.Preview:
    groups = await call.backend.store.dead_letter_store.group_dead_letters(
        rows.DeadLetterFilter(**which.model_dump(), limit=_MAX_GROUPS)
    )
    fields = ("fingerprint", "job_type", "dead_letters", "first_died_at", "last_died_at")
    return noun.Preview(
        sum(group.dead_letters for group in groups),
        [{name: getattr(group, name) for name in fields} for group in groups],
    )


async def _select(call: noun.VerbCall[Any]) -> events.DeadLetterSelection:
    body: _Selection = call.body
    store = call.backend.store
    return events.DeadLetterSelection(
        job_ids=tuple([await find_job_id(store, text) for text in body.ids]),
        fingerprint=await find_fingerprint(store, body.fingerprint) if body.fingerprint else None,
        job_type=body.job_type or None,
        died_after=body.since,
    )


DEAD_LETTERS = noun.Noun(
    word="dead-letters",
    plural="dead-letters",
    key="job_id",
    key_help="Id of a dead job, a part of it, or the id of its request.",
    query=DeadLettersQuery,
    list=list_dead_letters,
    read=read_dead_letter,
    verbs=(
        noun.Verb("redrive", RedriveBody, redrive, signed=True, keys="ids"),
        noun.Verb("drop", DropBody, drop, role=Role.ADMIN, signed=True, keys="ids", preview=preview),
    ),
    columns={
        "job": lambda one: id_text(one.job_id, wide=out().width >= WIDE),
        "type": "job_type",
        "cause": "fingerprint",
        "attempts": "attempts",
        "died": "died_at",
        "state": "state",
        "why": lambda one: f"{one.error.type}: {one.error.message}" if one.error else one.reason,
    },
    tones={  # those to which nothing more happens first
        rows.DeadLetterState.SUCCEEDED: Tone.GOOD,
        rows.DeadLetterState.ALREADY_SUCCEEDED: Tone.GOOD,
        rows.DeadLetterState.DROPPED: Tone.SOFT,
        rows.DeadLetterState.DIED_AGAIN: Tone.ERROR,
        rows.DeadLetterState.DIED: Tone.ERROR,
        rows.DeadLetterState.REJECTED: Tone.WARNING,
        rows.DeadLetterState.REOPENED: Tone.WARNING,
        rows.DeadLetterState.REDRIVEN: Tone.LIVE,
        rows.DeadLetterState.CLAIMED: Tone.SOFT,
        rows.DeadLetterState.OPEN: Tone.ERROR,
    },
    empty="No dead letter matches.",
)


# -- causes ------------------------------------------------------------------------------------------------


class CausesQuery(noun.NounQuery):
    """The causes to list."""

    job_type: Annotated[str, noun.Flag("--type")] = Field(default="", max_length=200, description="Job type.")
    limit: noun.Limit = Field(
        default=50, ge=1, le=1000, description="Maximum number of causes, that of the last death first."
    )


class CauseError(BaseModel):
    """The error of the last death, without its stack."""

    type: str
    message: str


class DeathCause(BaseModel):
    """A cause of death and its unresolved dead letters."""

    fingerprint: str
    job_type: str
    dead_letters: int = Field(description="Its unresolved dead letters.")
    is_counted: bool = Field(description="False: there are more than `dead_letters`.")
    first_died_at: datetime
    last_died_at: datetime
    example: UUID = Field(description="The dead job that died last.")
    reason: str
    error: CauseError | None
    deaths: list[int] = Field(description="Numbers of deaths in the equal parts of the last week.")

    @property
    def why(self) -> str:
        return f"{self.error.type}: {self.error.message}" if self.error else self.reason


class CausesPage(BaseModel):
    """Causes of unresolved dead letters, that of the last death first."""

    causes: list[DeathCause]


async def list_causes(backend: noun.Backend, query: CausesQuery) -> CausesPage:
    """List the causes of unresolved dead letters, that of the last death first, or show one.

    $ warrener dead-letters causes
    $ warrener dead-letters causes 9f86d0
    """
    return CausesPage(causes=await _unresolved(backend, query.limit, job_type=query.job_type or None))


async def read_cause(backend: noun.Backend, fingerprint: str) -> DeathCause:
    """Show one cause, also one whose dead letters were all redriven or dropped. `none`: that of deaths whose
    cause is not known."""
    wanted = await find_fingerprint(backend.store, fingerprint)
    found = await _unresolved(backend, 1, fingerprint=wanted)
    if found:
        return found[0]
    which = rows.DeadLetterFilter(states=(), fingerprint=wanted, limit=1)
    groups = await backend.store.dead_letter_store.group_dead_letters(which)
    if not groups:
        raise NothingFound(
            f"expected the cause of a dead letter, got {fingerprint!r:.40}: no dead letter has it"
        )
    last = groups[0].example
    cause = rows.UnresolvedCause(
        fingerprint=wanted, dead_letters=0, first_died_at=groups[0].first_died_at, example=last, deaths={}
    )
    return _cause(cause, mask_dead_letter(await backend.learn(), last), last.died_at)


async def _unresolved(
    backend: noun.Backend, limit: int, *, fingerprint: str | None = None, job_type: str | None = None
) -> list[DeathCause]:
    now = await backend.now()
    found = await backend.store.dead_letter_store.unresolved_causes(
        now - _PART * _PARTS, limit, fingerprint=fingerprint, job_type=job_type
    )
    masker = await backend.learn()
    return [_cause(cause, mask_dead_letter(masker, cause.example), now) for cause in found]


def _cause(cause: rows.UnresolvedCause, example: rows.DeadLetter, now: datetime) -> DeathCause:
    deaths = [0] * _PARTS
    for hour, count in cause.deaths.items():
        part = int((now - hour) / _PART)
        if 0 <= part < _PARTS:
            deaths[-1 - part] += count
    error = example.error
    return DeathCause(
        fingerprint=cause.fingerprint,
        job_type=example.job_type,
        dead_letters=cause.dead_letters,
        is_counted=cause.dead_letters < rows.MAX_COUNTED_DEATHS,
        first_died_at=cause.first_died_at,
        last_died_at=example.died_at,
        example=example.job_id,
        reason=example.reason,
        error=error and CauseError(type=error.type, message=error.message[:300]),
        deaths=deaths,
    )


async def find_fingerprint(store: "Store", text: str) -> str:
    """Find the one fingerprint that begins like this; a whole one stands for itself. Raises NothingFound."""
    if text == NO_CAUSE or len(text) == 12:
        return "" if text == NO_CAUSE else text
    groups = await store.dead_letter_store.group_dead_letters(
        rows.DeadLetterFilter(states=(), limit=_MAX_GROUPS)
    )
    found = {group.fingerprint for group in groups if group.fingerprint.startswith(text.lower())}
    if len(found) != 1:
        raise NothingFound(
            f"expected one cause that begins with {text!r:.40}, got {len(found) or 'none'}",
            do="see `warrener dead-letters causes`",
        )
    return found.pop()


CAUSES = noun.Noun(
    word="cause",
    command="dead-letters causes",
    plural="causes",
    key="fingerprint",
    key_help="Fingerprint of the cause; its beginning is enough.",
    query=CausesQuery,
    list=list_causes,
    read=read_cause,
    columns={
        "cause": "fingerprint",
        "type": "job_type",
        "jobs": "dead_letters",
        "first": "first_died_at",
        "last": "last_died_at",
        "example": lambda one: str(one.example)[-8:],
        "why": lambda one: one.why,
    },
    empty="No dead letter is open.",
)
