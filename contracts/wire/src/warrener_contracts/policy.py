"""Policies about retries and time that a job type declares and a request overrides. Pure data and arithmetic;
the supervisor applies them."""

from collections.abc import Iterable, Mapping, Sequence, Set
from datetime import timedelta
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self, cast

from pydantic import BaseModel, Field, ValidationError, model_validator

from warrener_contracts.circuit_breaker import BreakerPolicy, DependencyName
from warrener_contracts.fields import (
    MAX_DURATION,
    Duration,
    DurationLike,
    PositiveDuration,
    QueueName,
    is_none,
    is_unset,
    optional_field,
    parse_duration,
)
from warrener_contracts.unique import Unique

_MAX_DELAYS = 100
_MAX_EXPONENT = 64  # failures: past it every curve has met its limit; much beyond it floats overflow


class Backoff(BaseModel, frozen=True):
    """The delay before the next attempt, spread by `jitter`.

    Exponential: after the n-th failure `first * factor**(n-1)`, at most `limit`. With `step` it is linear
    instead: `first + step * (n-1)`, at most `limit`. With `delays` it is the n-th of them, and the last one
    from then on.

    Version 1.0 of the wire had neither `step` nor `delays`, and its readers ignore them. So their writers
    set the other fields to the nearest curve, as the constructors below do.
    """

    first: Duration = timedelta(seconds=1)
    factor: float = Field(default=2.0, ge=1.0, le=100.0)
    limit: Duration = timedelta(minutes=5)
    jitter: float = Field(
        default=0.1, ge=0.0, le=1.0, description="Share of the delay that is added or subtracted at random."
    )
    step: Duration | None = optional_field(
        "Linear: the growth from one delay to the next; factor is ignored."
    )
    delays: tuple[Duration, ...] | None = Field(
        default=None,
        min_length=1,
        max_length=_MAX_DELAYS,
        exclude_if=is_unset,
        description="An explicit list; the last one repeats; first, factor and limit are ignored.",
    )

    @model_validator(mode="after")
    def _check_one_curve(self) -> Self:
        if self.step is not None and self.delays is not None:
            raise ValueError("expected step (linear) or delays (a list), got both: leave one of them out")
        return self

    @classmethod
    def fixed(cls, delay: DurationLike, *, jitter: float = 0.1) -> Self:
        """The same delay every time."""
        return cls(first=parse_duration(delay), factor=1.0, limit=parse_duration(delay), jitter=jitter)

    @classmethod
    def linear(
        cls,
        first: DurationLike,
        *,
        step: DurationLike | None = None,
        limit: DurationLike = "5m",
        jitter: float = 0.1,
    ) -> Self:
        """`first`, growing by `step` each time (default: by `first`), at most `limit`."""
        by = parse_duration(first if step is None else step)
        return cls(
            first=parse_duration(first), factor=1.0, step=by, limit=parse_duration(limit), jitter=jitter
        )

    @classmethod
    def exponential(
        cls,
        first: DurationLike = "1s",
        *,
        factor: float = 2.0,
        limit: DurationLike = "5m",
        jitter: float = 0.1,
    ) -> Self:
        """`first`, growing by `factor` each time, at most `limit`."""
        return cls(first=parse_duration(first), factor=factor, limit=parse_duration(limit), jitter=jitter)

    @classmethod
    def listed(cls, *delays: DurationLike, jitter: float = 0.1) -> Self:
        """These delays in order, then the last one again and again."""
        spans = tuple(parse_duration(delay) for delay in delays)
        ends = {"first": spans[0], "limit": max(spans)} if spans else {}
        return cls.model_validate({"delays": spans, "jitter": jitter, **ends})

    def base_delay(self, failures: int) -> timedelta:
        """The delay after the `failures`-th failure (1, 2, …) before it is spread; at most MAX_DURATION."""
        before = max(failures - 1, 0)
        if self.delays is not None:
            return min(self.delays[min(before, len(self.delays) - 1)], MAX_DURATION)
        seconds = self.first.total_seconds()
        if self.step is not None:
            seconds += self.step.total_seconds() * before
        else:
            seconds *= self.factor ** min(before, _MAX_EXPONENT)
        return timedelta(seconds=min(seconds, self.limit.total_seconds()))

    def delay(self, failures: int, chance: float) -> timedelta:
        """The delay after the `failures`-th failure (1, 2, …); `chance` is a random number in [0, 1).

        From zero to MAX_DURATION.
        """
        spread = 1 + self.jitter * (2 * chance - 1)
        return min(timedelta(seconds=self.base_delay(failures).total_seconds() * spread), MAX_DURATION)


MAX_SNOOZES = 1000
MAX_DISPATCH_BATCH = 64
"""Attempts per message: more would give one agent the work of several, and save little."""
_DEFAULT_MAX_CRASHES = 4

ErrorName = Annotated[str, Field(min_length=1, max_length=200, examples=["requests.*", "ValueError"])]
"""The name of an error's class; `*` stands for any characters."""

ErrorNames = Annotated[tuple[ErrorName, ...], Field(max_length=100)]


_OUT_OF_MEMORY = frozenset({"MemoryError", "OutOfMemory"})


def is_named(patterns: Iterable[str], cause: str, error_type: str, base_classes: Sequence[str] = ()) -> bool:
    """True if one of `patterns` matches the class of an error or one of its bases; or its cause: `timeout`,
    `crash`, `lost`, and `memory` for an attempt that had too little of it."""
    names = [error_type, *base_classes]
    names += [] if cause == "error" else [cause]
    names += ["memory"] if error_type in _OUT_OF_MEMORY else []
    return any(matches_pattern(pattern, name) for pattern in patterns for name in names)


def matches_pattern(pattern: str, name: str) -> bool:
    """True if `name` is `pattern`, in which each `*` stands for any text; in linear time."""
    first, *parts = pattern.split("*")
    if not parts:
        return name == pattern
    *parts, last = parts
    place, end = len(first), len(name) - len(last)
    if end < place or not name.startswith(first) or not name.endswith(last):
        return False
    for part in parts:
        found = name.find(part, place, end)
        if found < 0:
            return False
        place = found + len(part)
    return True


class Guarantee(StrEnum):
    """The guarantee of a job type about its effects."""

    IDEMPOTENT = "idempotent"  # claimed in the ledger; may be repeated after a crash
    TRANSACTIONAL = "transactional"  # effects, result and child jobs commit together, once
    EXCLUSIVE = "exclusive"  # starts only once its claim is granted, and reports it at once


MAX_HISTORY = 10
"""Number of earlier attempts that a dispatch carries, and that the rules of a retry policy can count."""


class RetryRule(BaseModel, frozen=True):
    """A change of the next attempt after failures of one kind, such as another queue after two memory deaths.

    All rules that apply change the attempt, in their order. Its queue and timeout stay for later attempts.
    """

    errors: ErrorNames = Field(
        min_length=1,
        examples=[["memory"], ["timeout"]],
        description="Errors that count, by class, or by cause: `memory`, `timeout`, `lost`, `crash`.",
    )
    after: int = Field(
        default=1,
        ge=1,
        le=MAX_HISTORY,
        description="Number of such failures, the last one included, from which on it applies.",
    )
    in_a_row: bool = Field(
        default=False, exclude_if=is_unset, description="True if a failure of another kind resets the number."
    )
    queue: QueueName | None = optional_field("Queue of the next attempt.")
    timeout_factor: float | None = Field(
        default=None,
        gt=1.0,
        le=100.0,
        exclude_if=is_none,
        description="Factor by which the timeout grows with each such failure, up to max_timeout.",
    )
    max_timeout: PositiveDuration | None = optional_field("Limit of the timeout; default: 24 hours.")
    another_agent: bool = Field(
        default=False,
        exclude_if=is_unset,
        description="True if agents on which it failed so give the next attempt back, for up to 30 seconds, "
        "while others serve its queue.",
    )

    if TYPE_CHECKING:  # accepted input: durations as people write them

        def __init__(
            self,
            *,
            errors: Sequence[str],
            after: int = 1,
            in_a_row: bool = False,
            queue: str | None = None,
            timeout_factor: float | None = None,
            max_timeout: DurationLike | None = None,
            another_agent: bool = False,
        ) -> None: ...


class OnFailure(StrEnum):
    """The way of a workflow that would be dead."""

    UNDO = "undo"  # its calls are undone, then it is dead
    HOLD = "hold"  # it waits until an operator resumes it, or has its calls undone


MAX_LIMITS = 5  # of a job type


class Limit(BaseModel, frozen=True):
    """The number of jobs that are dispatched at once: of a type, of all types that share a pool or a queue;
    of all, or of those with the same key.

    Readers of before ignore `pool` and `per`: to them it is a limit of the job type alone.
    """

    slots: int = Field(ge=1, le=10_000, strict=True)
    key: str = Field(
        default="",
        max_length=500,
        exclude_if=lambda value: not value,
        description="A template such as `{{ arguments.tenant }}`; jobs with other texts have other slots.",
    )
    pool: str | None = Field(
        default=None,
        max_length=100,
        pattern=r"^[A-Za-z0-9_][A-Za-z0-9_.-]*$",
        exclude_if=is_none,
        description="A name; job types that give the same one share its slots. Of differing numbers that of "
        "the newest announcement counts.",
    )
    per: Literal["queue"] | None = optional_field("`queue`: the job types of a queue share its slots.")

    def __init__(self, slots: int | None = None, *, key: str = "", **more: Any) -> None:
        """`Limit(5)`: the number of slots may stand without its name."""
        try:
            super().__init__(slots=slots, key=key, **more)
        except ValidationError as error:
            what = '1 to 10000 slots, a key of at most 500 characters, and a pool\'s name or per="queue"'
            given = "".join(f", {name}={value!r:.100}" for name, value in more.items())
            raise ValueError(f"expected {what} of a limit, got {slots!r} and {key!r:.100}{given}") from error

    @model_validator(mode="after")
    def _check_one_scope(self) -> Self:
        if self.pool is not None and self.per is not None:
            raise ValueError("expected a pool or per, got both: leave one of them out")
        return self


class JobPolicy(BaseModel, frozen=True):
    """Limits of a job's attempts. The agent declares them; a request may override parts."""

    max_attempts: int = Field(default=5, ge=1, le=1000)
    max_lost_attempts: int = Field(
        default=3, ge=0, le=1000, description="Lost attempts, counted apart: they are not the job's fault."
    )
    max_crashes: int | None = Field(
        default=None,
        ge=1,
        le=1000,
        exclude_if=is_none,
        description="Attempts that end with their executor or agent before the job is quarantined; "
        "default 4, or one more than max_lost_attempts if that is greater.",
    )
    timeout: PositiveDuration = Field(
        default=timedelta(hours=1), description="Maximum time of one attempt, from its start."
    )
    heartbeat_timeout: PositiveDuration | None = optional_field(
        "Maximum time between two heartbeats of its handler before the attempt times out."
    )
    start_timeout: PositiveDuration = Field(
        default=timedelta(hours=1),
        description="Time in the queue after which `attempt.start_timed_out` is sent once; the job waits on.",
    )
    backoff: Backoff = Backoff()
    max_age: PositiveDuration | None = optional_field(
        "Time from its first due moment; no attempt begins later."
    )
    max_snoozes: int = Field(
        default=MAX_SNOOZES,
        ge=0,
        le=1_000_000,
        exclude_if=lambda value: value == MAX_SNOOZES,
        description="Number of snoozes after which each further one is charged as a failure.",
    )
    retry_on: ErrorNames = Field(
        default=(), exclude_if=is_unset, description="If any: a handler's other errors are not retried."
    )
    no_retry_on: ErrorNames = Field(
        default=(),
        exclude_if=is_unset,
        description="Errors, also `timeout` and `crash`, that are not retried; precedes retry_on.",
    )
    retry_rules: tuple[RetryRule, ...] = Field(
        default=(),
        max_length=20,
        exclude_if=is_unset,
        description="Changes of a next attempt, by how earlier ones have failed.",
    )

    on_failure: OnFailure = Field(
        default=OnFailure.UNDO,
        exclude_if=lambda value: value is OnFailure.UNDO,
        description="Of a workflow that would be dead. A cancel and a deadline end it all the same.",
    )

    dispatch_batch: int = Field(
        default=1,
        ge=1,
        le=MAX_DISPATCH_BATCH,
        exclude_if=lambda value: value == 1,
        description="First attempts dispatched at once that may share a message and a slot of their agent: "
        "for thousands of short jobs.",
    )

    public: bool = Field(
        default=False,
        exclude_if=is_unset,
        description="True if its events on `warrener.events` carry results and the texts of errors, which "
        "replies and the store always have.",
    )

    gates: tuple[Limit, ...] = Field(
        default=(),
        max_length=MAX_LIMITS,
        exclude_if=is_unset,
        description="Limits; a job is dispatched once all of them have a slot for it.",
    )

    unique: Unique | None = optional_field("Jobs of which no two with the same key are there at once.")

    depends_on: tuple[DependencyName, ...] = Field(
        default=(),
        max_length=20,
        exclude_if=is_unset,
        description="External services that its handler needs; jobs wait while a breaker of one is open.",
    )
    breaker: BreakerPolicy | None = optional_field(
        "Policy of the job type's own breaker and those of its dependencies. None: no breaker of "
        "its own, and the default policy for its dependencies."
    )

    encrypted: bool = Field(
        default=False,
        exclude_if=is_unset,
        description="True if plain arguments are refused, and its results, checkpoints, journals and errors "
        "are encrypted. A request cannot change it.",
    )

    @property
    def quarantine_threshold(self) -> int:
        """Number of deaths of its executors and agents, together, that quarantines a job."""
        return self.max_crashes or max(_DEFAULT_MAX_CRASHES, self.max_lost_attempts + 1)

    @property
    def rule_queues(self) -> set[str]:
        """The queues to which rules send attempts, beside that of the job."""
        return {rule.queue for rule in self.retry_rules if rule.queue is not None}

    def with_initial_wait(self, wait: timedelta) -> "JobPolicy":
        """The policy of a job that is first due `wait` after acceptance: its age begins then."""
        if self.max_age is None or wait <= timedelta(0):
            return self
        return self.model_copy(update={"max_age": min(self.max_age + wait, MAX_DURATION)})


class PolicyOverrides(BaseModel, frozen=True):
    """The parts of a JobPolicy that one request overrides."""

    max_attempts: int | None = Field(default=None, ge=1, le=1000)
    timeout: PositiveDuration | None = None
    start_timeout: PositiveDuration | None = None
    backoff: Backoff | None = None
    # Since 1.1. Unset fields are not written, so that the fingerprint of an earlier request stays the same.
    max_lost_attempts: int | None = Field(default=None, ge=0, le=1000, exclude_if=is_none)
    max_crashes: int | None = Field(default=None, ge=1, le=1000, exclude_if=is_none)
    max_age: PositiveDuration | None = Field(default=None, exclude_if=is_unset)
    max_snoozes: int | None = Field(default=None, ge=0, le=1_000_000, exclude_if=is_none)
    retry_on: ErrorNames | None = optional_field("Empty: all errors.")
    no_retry_on: ErrorNames | None = optional_field("Empty: none.")

    def apply_to(self, policy: JobPolicy) -> JobPolicy:
        """Return `policy` with these parts replaced."""
        return policy.model_copy(update={name: value for name, value in self if value is not None})


def find_unknown_field(chosen: Mapping[str, Any]) -> str | None:
    """Report a field that no policy has; None if there is none.

    Readers of the wire ignore unknown fields, because newer writers may send them. A person who writes
    `max_attemps` has made a mistake.
    """
    backoff = chosen.get("backoff")
    if wrong := _find_unknown("policy", chosen.keys(), PolicyOverrides.model_fields.keys()):
        return wrong
    if not isinstance(backoff, Mapping):
        return None
    written = cast("Mapping[str, Any]", backoff)
    return _find_unknown("policy.backoff", written.keys(), Backoff.model_fields.keys())


def _find_unknown(where: str, written: Set[str], known: Set[str]) -> str | None:
    unknown = sorted(str(part) for part in written - known)
    if not unknown:
        return None
    return f"{where}: expected parts among {', '.join(sorted(known))}, got {', '.join(unknown)}"
