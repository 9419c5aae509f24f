"""Causes of death, with their unresolved dead letters and when their jobs died."""

from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Annotated
from uuid import UUID

from pydantic import BaseModel, ConfigDict, Field

from warrener.errors import NothingFound
from warrener.operations.masked_rows import mask_dead_letter
from warrener.operations.noun import Backend, Flag, Noun
from warrener_store.dead_letters.rows import MAX_COUNTED_DEATHS, DeadLetter, DeadLetterFilter, UnresolvedCause

if TYPE_CHECKING:
    from warrener_store import Store

_PART, _PARTS = timedelta(hours=6), 28
_MAX_SEARCHED = 10_000
NO_CAUSE = "none"
"""Stands in an address for the empty fingerprint of deaths whose cause is not known."""


class CausesQuery(BaseModel):
    """The causes to list."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    job_type: Annotated[str, Flag("--type")] = Field(default="", max_length=200, description="Job type.")
    limit: Annotated[int, Flag("--limit", "-n")] = Field(
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
        """The error of the last death, or the reason of one without."""
        return f"{self.error.type}: {self.error.message}" if self.error else self.reason


class CausesPage(BaseModel):
    """Causes of unresolved dead letters, that of the last death first."""

    causes: list[DeathCause]


async def list_causes(backend: Backend, query: CausesQuery) -> CausesPage:
    """List the causes of unresolved dead letters, that of the last death first, or show one.

    $ warrener dead-letters causes
    $ warrener dead-letters causes 9f86d0
    """
    return CausesPage(causes=await _unresolved(backend, query.limit, job_type=query.job_type or None))


async def read_cause(backend: Backend, fingerprint: str) -> DeathCause:
    """Show one cause, also one whose dead letters were all redriven or dropped. `none`: that of deaths whose
    cause is not known."""
    wanted = await find_fingerprint(backend.store, fingerprint)
    found = await _unresolved(backend, 1, fingerprint=wanted)
    if found:
        return found[0]
    which = DeadLetterFilter(states=(), fingerprint=wanted, limit=1)
    groups = await backend.store.dead_letter_store.group_dead_letters(which)
    if not groups:
        raise NothingFound(
            f"expected the cause of a dead letter, got {fingerprint!r:.40}: no dead letter has it"
        )
    last = groups[0].example
    cause = UnresolvedCause(
        fingerprint=wanted, dead_letters=0, first_died_at=groups[0].first_died_at, example=last, deaths={}
    )
    return _cause(cause, mask_dead_letter(backend.masker, last), last.died_at)


async def _unresolved(
    backend: Backend, limit: int, *, fingerprint: str | None = None, job_type: str | None = None
) -> list[DeathCause]:
    now = await backend.now()
    found = await backend.store.dead_letter_store.unresolved_causes(
        now - _PART * _PARTS, limit, fingerprint=fingerprint, job_type=job_type
    )
    return [_cause(cause, mask_dead_letter(backend.masker, cause.example), now) for cause in found]


def _cause(cause: UnresolvedCause, example: DeadLetter, now: datetime) -> DeathCause:
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
        is_counted=cause.dead_letters < MAX_COUNTED_DEATHS,
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
        DeadLetterFilter(states=(), limit=_MAX_SEARCHED)
    )
    found = {group.fingerprint for group in groups if group.fingerprint.startswith(text.lower())}
    if len(found) != 1:
        raise NothingFound(
            f"expected one cause that begins with {text!r:.40}, got {len(found) or 'none'}",
            do="see `warrener dead-letters causes`",
        )
    return found.pop()


CAUSES = Noun(
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
