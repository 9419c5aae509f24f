"""The state machine of a circuit breaker: its next state by attempts, time and commands."""

from collections import deque
from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from warrener_contracts.circuit_breaker import (
    DEFAULT_BREAKER_POLICY,
    BreakerPolicy,
    BreakerState,
    dependency_breaker,
    job_type_breaker,
    paused_queue,
)
from warrener_contracts.events import BreakerSetRequestedData, ErrorKind
from warrener_contracts.policy import JobPolicy
from warrener_store.breakers.gate import BreakerRow
from warrener_store.jobs.rows import AttemptOutcome, AttemptRow

COUNTED_ERRORS = frozenset({ErrorKind.ERROR, ErrorKind.TIMEOUT, ErrorKind.CRASH})
"""Failures of the handler. Bad arguments and results count for the job alone, lost agents for nobody."""
PROBE_TIMEOUT = timedelta(seconds=10)
"""Time a probe has to finish before another is admitted."""
_SLICES = 10


class AttemptCounts(NamedTuple):
    """Attempts that succeeded, and attempts that failed."""

    successes: int = 0
    failures: int = 0

    def __add__(self, other: object) -> "AttemptCounts":
        if not isinstance(other, AttemptCounts):
            return NotImplemented
        return AttemptCounts(self.successes + other.successes, self.failures + other.failures)


def count_attempt(attempt: AttemptRow | None) -> AttemptCounts | None:
    """Return how the end of an attempt counts; None if it does not."""
    if attempt is None:
        return None
    if attempt.outcome is AttemptOutcome.SUCCEEDED:
        return AttemptCounts(successes=1)
    has_failed = attempt.outcome in (AttemptOutcome.FAILED, AttemptOutcome.TIMED_OUT)
    blamed = has_failed and attempt.error is not None and attempt.error.kind in COUNTED_ERRORS
    return AttemptCounts(failures=1) if blamed else None


def breakers_counting(job_type: str, policy: JobPolicy) -> Iterable[tuple[str, BreakerPolicy]]:
    """Yield the breakers that count a job's attempts: of its dependencies, and its job type's own."""
    for dependency in policy.depends_on:
        yield dependency_breaker(dependency), policy.breaker or DEFAULT_BREAKER_POLICY
    if policy.breaker is not None:
        yield job_type_breaker(job_type), policy.breaker


class Window:
    """The ends of attempts within a policy's window; exact to a tenth of it."""

    def __init__(self) -> None:
        # Each with the time at which it began.
        self._slices: deque[tuple[datetime, AttemptCounts]] = deque()

    def add(self, counted: AttemptCounts, policy: BreakerPolicy, now: datetime) -> None:
        self._forget(policy, now)
        if self._slices and now - self._slices[-1][0] < policy.window / _SLICES:
            began, before = self._slices[-1]
            self._slices[-1] = (began, before + counted)
        else:
            self._slices.append((now, counted))

    def trip_reason(self, policy: BreakerPolicy, now: datetime) -> str | None:
        """Explain why the breaker opens; None if it does not."""
        self._forget(policy, now)
        failures = sum(counted.failures for _, counted in self._slices)
        ended = failures + sum(counted.successes for _, counted in self._slices)
        if ended < policy.minimum_calls or failures < policy.failure_rate * ended:
            return None
        return f"{failures} of {ended} attempts within {policy.window.total_seconds():g} s have failed"

    def _forget(self, policy: BreakerPolicy, now: datetime) -> None:
        while self._slices and now - self._slices[0][0] > policy.window:
            self._slices.popleft()


def open_breaker(
    held: BreakerRow | None, name: str, policy: BreakerPolicy, why: str, now: datetime
) -> BreakerRow:
    """Open a breaker because too many attempts failed, or a probe did."""
    before = held or BreakerRow(
        name=name, version=0, state=BreakerState.CLOSED, since=now, reason="", policy=policy
    )
    times = before.times_opened + 1
    grown = policy.open_duration.total_seconds() * 2.0 ** min(times - 1, 30)
    open_duration = timedelta(seconds=min(grown, policy.max_open_duration.total_seconds()))
    return _change(
        before,
        BreakerState.OPEN,
        why,
        now,
        until=now + max(open_duration, policy.open_duration),
        times_opened=times,
        policy=policy,
    )


def on_open_duration_over(held: BreakerRow, now: datetime) -> BreakerRow | None:
    """Let probes through when the open duration of an open breaker is over. A paused queue goes on: no
    failure paused it."""
    if held.state is not BreakerState.OPEN or held.until is None or held.until > now:
        return None
    if paused_queue(held.name) is not None:
        return _closed(held, "its pause is over", now)
    return _change(
        held, BreakerState.HALF_OPEN, "its open duration is over: probes are let through", now, until=now
    )


def on_probes_admitted(held: BreakerRow, now: datetime) -> BreakerRow:
    """Give the admitted probes time to finish."""
    return replace(held, version=held.version + 1, until=now + PROBE_TIMEOUT)


def on_probe_result(held: BreakerRow, counted: AttemptCounts, now: datetime) -> BreakerRow | None:
    """Apply the ends of probes: a failure opens the breaker again, enough successes close it."""
    if held.state is not BreakerState.HALF_OPEN:
        return None
    if counted.failures:
        return open_breaker(held, held.name, held.policy, "a probe has failed", now)
    succeeded = held.probes_succeeded + counted.successes
    if succeeded < held.policy.half_open_calls:
        return (
            replace(held, version=held.version + 1, probes_succeeded=succeeded) if counted.successes else None
        )
    return _closed(held, "its probes have succeeded", now)


def set_manually(
    held: BreakerRow | None, command: BreakerSetRequestedData, policy: BreakerPolicy, now: datetime
) -> BreakerRow | None:
    """Apply a command; None if the breaker is in the requested state already."""
    if command.state is BreakerState.CLOSED:
        if held is None or held.state is BreakerState.CLOSED:
            return None
        return replace(_closed(held, command.reason, now), manual=True)
    if (
        held is not None
        and (held.state, held.manual, held.reason) == (BreakerState.OPEN, True, command.reason)
        and (held.until is None) == (command.open_for is None)
    ):
        return None
    opening = open_breaker(held, command.name, policy, command.reason, now)
    until = None if command.open_for is None else now + command.open_for
    return replace(opening, manual=True, until=until, times_opened=held.times_opened if held else 0)


def _closed(held: BreakerRow, why: str, now: datetime) -> BreakerRow:
    return _change(held, BreakerState.CLOSED, why, now, until=None, times_opened=0)


def _change(
    held: BreakerRow, state: BreakerState, why: str, now: datetime, *, until: datetime | None, **fields: Any
) -> BreakerRow:
    """Enter a state: a new version, with no probe counted yet."""
    return replace(
        held,
        version=held.version + 1,
        state=state,
        manual=False,
        since=now,
        until=until,
        probes_succeeded=0,
        reason=why,
        **fields,
    )
