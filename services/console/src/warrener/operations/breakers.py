"""Circuit breakers: those that job types name, how they stand, and their verbs."""

from collections import Counter
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Annotated

from pydantic import BaseModel, Field

from warrener.errors import NothingFound
from warrener.operations.masking import Masker
from warrener.operations.noun import ActionBody, Backend, Flag, Noun, Outcome, Verb, VerbCall, fields_from
from warrener.render.times import brief
from warrener.render.tones import Tone
from warrener_contracts.circuit_breaker import (
    BreakerState,
    describe_unknown_breaker,
    job_types_of_breakers,
    paused_queue,
    queue_breaker,
)
from warrener_contracts.fields import Duration
from warrener_contracts.state_machine import JobState

if TYPE_CHECKING:
    from warrener_store.agents.rows import JobTypeRow
    from warrener_store.breakers.gate import BreakerRow
    from warrener_store.jobs.rows import StateCount

_MAX_CLOSED = 500  # breakers that have never been open
_ORDER = [BreakerState.OPEN, BreakerState.HALF_OPEN, BreakerState.CLOSED]


class Breaker(BaseModel):
    """A circuit breaker. One that was never open has no `since`, and is closed."""

    name: str
    state: BreakerState = BreakerState.CLOSED
    job_types: list[str]
    held: int = Field(default=0, description="Waiting and retrying jobs of its types, unless it is closed.")
    manual: bool = Field(default=False, description="True if a person has opened or closed it.")
    since: datetime | None = None
    until: datetime | None = Field(
        default=None, description="Time of the next probe. None while it is open: until a person closes it."
    )
    reason: str = ""
    times_opened: int = 0
    probes_succeeded: int = 0
    probes_needed: int = 0
    rule: str = ""

    @property
    def next(self) -> str:
        """The change that comes next, in words; a probe has its time in `until`."""
        if self.state is BreakerState.HALF_OPEN:
            return f"{self.probes_succeeded} of {self.probes_needed} probes have succeeded"
        if self.state is BreakerState.OPEN:
            at_end = "its jobs go on" if paused_queue(self.name) else "a probe"
            return at_end if self.until else "it stays open until it is closed by hand"
        return "its jobs pass" if paused_queue(self.name) else "it counts on"


class BreakersQuery(BaseModel):
    """All breakers."""


class BreakersPage(BaseModel):
    """All circuit breakers: open ones first, then those that were open, then the others by name."""

    breakers: list[Breaker]


async def list_breakers(backend: Backend, _: BreakersQuery | None = None) -> BreakersPage:
    """List the circuit breakers of all job types, the open ones first.

    $ warrener breaker list
    $ warrener breaker list --json | jq -r '.[] | select(.state == "open").name'
    """
    found = await _read_all(backend)
    opened = [one for one in found.values() if one.since is not None]
    opened.sort(key=lambda one: (_ORDER.index(one.state), one.name))
    never = sorted(name for name, one in found.items() if one.since is None)
    return BreakersPage(breakers=[*opened, *(found[name] for name in never[:_MAX_CLOSED])])


async def read_breaker(backend: Backend, name: str) -> Breaker:
    """Show one circuit breaker: its state, the reason, and the job types that it holds back.

    $ warrener breaker show dependency:billing-api
    """
    found, name = await _read_all(backend), _full_name(name)
    if name not in found:
        raise NothingFound(describe_unknown_breaker(name, found))
    return found[name]


async def _read_all(backend: Backend) -> dict[str, Breaker]:
    store = backend.store
    rows, types = await store.breakers(), await store.job_types()
    return breakers_of(rows, types, await store.count_jobs(), (await backend.learn()).every)


def breakers_of(
    rows: "Iterable[BreakerRow]",
    types: "Mapping[str, JobTypeRow]",
    counts: "Iterable[StateCount]",
    masker: Masker,
) -> dict[str, Breaker]:
    """Make all breakers of their rows, all job types and all counts of jobs. Pure."""
    waiting: Counter[str] = Counter()  # by job type and, as its breaker, by queue
    for count in counts:
        if count.state in (JobState.WAITING, JobState.RETRYING):
            waiting.update({count.job_type: count.jobs, queue_breaker(count.queue): count.jobs})
    job_types = job_types_of_breakers({name: row.policy.depends_on for name, row in types.items()})
    found = {name: Breaker(name=name, job_types=known) for name, known in job_types.items()}
    for row in rows:
        found[row.name] = _breaker(row, job_types.get(row.name, list(row.job_types)), waiting, masker)
    return found


def paused_queues(breakers: Iterable[Breaker]) -> set[str]:
    """The queues that these breakers pause. Pure."""
    open_ones = (one.name for one in breakers if one.state is not BreakerState.CLOSED)
    return {queue for name in open_ones if (queue := paused_queue(name)) is not None}


def _breaker(row: "BreakerRow", job_types: list[str], waiting: Mapping[str, int], masker: Masker) -> Breaker:
    policy, is_closed = row.policy, row.state is BreakerState.CLOSED
    is_pause = paused_queue(row.name) is not None
    fields = fields_from(Breaker, row) | {
        "job_types": job_types,
        "held": 0 if is_closed else sum(waiting[name] for name in ([row.name] if is_pause else job_types)),
        "reason": masker.text(row.reason),
        "probes_needed": policy.half_open_calls,
        "rule": ""
        if is_pause
        else f"opens when {policy.failure_rate:.0%} of at least {policy.minimum_calls} attempts within "
        f"{brief(policy.window)} have failed; first probe after {brief(policy.open_duration)}",
    }
    return Breaker.model_validate(fields)


def _full_name(name: str) -> str:
    """Write the name of a job type as that of its breaker."""
    return name if ":" in name else f"job:{name}"


class OpenBreaker(ActionBody):
    """Open a breaker by hand."""

    open_for: Annotated[Duration | None, Flag("--for")] = Field(
        default=None,
        description="Time after which one job may try, or a paused queue goes on, such as 10m (default: "
        "until it is closed).",
    )


async def open_breaker(call: VerbCall[OpenBreaker]) -> Outcome:
    """Open a circuit breaker, or pause a queue: hold its jobs back, uncharged. Running ones go on.

    $ warrener breaker open dependency:billing-api --for 30m --reason "being upgraded"
    $ warrener breaker open job:flights.load
    $ warrener breaker open queue:default --for 30m
    """
    name, client = _full_name(call.key), await call.backend.client()
    await client.open_breaker(
        name, for_=call.body.open_for, reason=call.reason, reply_timeout=call.reply_timeout
    )
    return Outcome(sentence=f"{name} is open: its jobs wait, uncharged")


async def close_breaker(call: VerbCall[ActionBody]) -> Outcome:
    """Close a circuit breaker, or resume a queue: let its jobs through.

    It counts on, and opens again after too many failures; a queue does not.

    $ warrener breaker close dependency:billing-api --reason "works again"
    $ warrener breaker close queue:default
    """
    name, client = _full_name(call.key), await call.backend.client()
    await client.close_breaker(name, reason=call.reason, reply_timeout=call.reply_timeout)
    goes_on = "" if paused_queue(name) else ", and it counts on"
    return Outcome(sentence=f"{name} is closed: its jobs pass{goes_on}")


BREAKERS = Noun(
    word="breaker",
    plural="breakers",
    key="name",
    key_help="`job:<job type>`, `dependency:<name>` or `queue:<name>`; a bare name is a job type.",
    query=BreakersQuery,
    list=list_breakers,
    read=read_breaker,
    verbs=(
        Verb("open", OpenBreaker, open_breaker, reads=False),
        Verb("close", ActionBody, close_breaker, reads=False),
    ),
    columns={
        "breaker": "name",
        "state": "state",
        "held": "held",
        "since": "since",
        "next": "next",
        "why": "reason",
    },
    tones={"open": Tone.ERROR, "half_open": Tone.WARNING, "closed": Tone.GOOD},
    empty="No agent has announced a job type yet.",
)
