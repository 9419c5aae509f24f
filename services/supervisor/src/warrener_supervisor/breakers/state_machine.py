"""DOC"""

from collections import deque
from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime, timedelta
from typing import NamedTuple

from warrener_contracts.circuit_breaker import (
    DEFAULT_BREAKER_POLICY,
    BreakerPolicy,
    BreakerState,
    dependency_breaker,
    job_type_breaker,
)
from warrener_contracts.events import BreakerSetRequestedData, ErrorKind
from warrener_contracts.policy import JobPolicy
from warrener_store.rows import AttemptEnd, AttemptRow, BreakerRow

COUNTED_ERRORS = frozenset({ErrorKind.ERROR, ErrorKind.TIMEOUT, ErrorKind.CRASH})
"""Failures of what the handler does. Bad arguments and results are the job's own, lost agents nobody's."""


PROBE_TIMEOUT = timedelta(seconds=10)
"""So long a probe has to end, before others are let through beside it."""


_SLICES = 10


class AttemptCounts(NamedTuple):
    """How many attempts have ended well, and how many badly."""

    successes: int = 0
    failures: int = 0

    def __add__(self, other: object) -> "AttemptCounts":
        if not isinstance(other, AttemptCounts):
            return NotImplemented
        return AttemptCounts(self.successes + other.successes, self.failures + other.failures)


def count_attempt(attempt: AttemptRow | None) -> AttemptCounts | None:
    """What the end of an attempt says; None where it says nothing."""
    if attempt is None:
        return None
    if attempt.end is AttemptEnd.SUCCEEDED:
        return AttemptCounts(successes=1)
    blamed = attempt.error is not None and attempt.error.kind in COUNTED_ERRORS
    return (
        AttemptCounts(failures=1)
        if blamed and attempt.end in (AttemptEnd.FAILED, AttemptEnd.TIMED_OUT)
        else None
    )


def breakers_counting(job_type: str, policy: JobPolicy) -> Iterable[tuple[str, BreakerPolicy]]:
    """The breakers that count a job's attempts: its dependencies', and its own where its type has one."""
    for dependency in policy.depends_on:
        yield dependency_breaker(dependency), policy.breaker or DEFAULT_BREAKER_POLICY
    if policy.breaker is not None:
        yield job_type_breaker(job_type), policy.breaker


class Window:
    """How attempts have ended within the window of a policy; exact to a tenth of it."""

    def __init__(self) -> None:
        self._slices: deque[tuple[datetime, AttemptCounts]] = (
            deque()
        )  # each with the moment at which it began

    def add(self, counted: AttemptCounts, policy: BreakerPolicy, now: datetime) -> None:
        """Count these as ended now."""
        self._forget(policy, now)
        if self._slices and now - self._slices[-1][0] < policy.window / _SLICES:
            began, before = self._slices[-1]
            self._slices[-1] = (began, before + counted)
        else:
            self._slices.append((now, counted))

    def trip_reason(self, policy: BreakerPolicy, now: datetime) -> str | None:
        """Why the breaker opens; None where it need not."""
        self._forget(policy, now)
        successes = sum(counted.successes for _, counted in self._slices)
        failures = sum(counted.failures for _, counted in self._slices)
        if successes + failures < policy.at_least or failures < policy.failure_rate * (successes + failures):
            return None
        return (
            f"{failures} of {successes + failures} attempts within "
            f"{_format_seconds(policy.window)} have failed"
        )

    def _forget(self, policy: BreakerPolicy, now: datetime) -> None:
        while self._slices and now - self._slices[0][0] > policy.window:
            self._slices.popleft()


def _format_seconds(window: timedelta) -> str:
    return f"{window.total_seconds():g} s"


def open_breaker(
    held: BreakerRow | None, name: str, policy: BreakerPolicy, why: str, now: datetime
) -> BreakerRow:
    """It opens because too much has failed, or a probe has."""
    before = held or BreakerRow(
        name=name, version=0, state=BreakerState.CLOSED, since=now, reason="", policy=policy
    )
    times = before.opened + 1
    grown = policy.cooldown.total_seconds() * 2.0 ** min(times - 1, 30)
    cooldown = timedelta(seconds=min(grown, policy.longest_cooldown.total_seconds()))
    return replace(
        before,
        version=before.version + 1,
        state=BreakerState.OPEN,
        by_hand=False,
        since=now,
        until=now + max(cooldown, policy.cooldown),
        opened=times,
        succeeded=0,
        reason=why,
        policy=policy,
    )


def on_cooldown_over(held: BreakerRow, now: datetime) -> BreakerRow | None:
    """What time makes of it: an open one lets probes through when its cooldown is over."""
    if held.state is not BreakerState.OPEN or held.until is None or held.until > now:
        return None
    return replace(
        held,
        version=held.version + 1,
        state=BreakerState.HALF_OPEN,
        by_hand=False,
        since=now,
        until=now,
        succeeded=0,
        reason="its cooldown is over: probes are let through",
    )


def on_probes_admitted(held: BreakerRow, now: datetime) -> BreakerRow:
    """Probes were let through: time is given to them."""
    return replace(held, version=held.version + 1, until=now + PROBE_TIMEOUT)


def on_probe_result(held: BreakerRow, counted: AttemptCounts, now: datetime) -> BreakerRow | None:
    """What the ends of probes make of it: one that failed opens it again, enough that succeeded close it."""
    if held.state is not BreakerState.HALF_OPEN:
        return None
    if counted.failures:
        return open_breaker(held, held.name, held.policy, "a probe has failed", now)
    succeeded = held.succeeded + counted.successes
    if succeeded < held.policy.probes:
        return replace(held, version=held.version + 1, succeeded=succeeded) if counted.successes else None
    return _closed(held, "its probes have succeeded", now)


def set_manually(
    held: BreakerRow | None, command: BreakerSetRequestedData, policy: BreakerPolicy, now: datetime
) -> BreakerRow | None:
    """What somebody asks for; None where it is so already."""
    if command.state is BreakerState.CLOSED:
        if held is None or held.state is BreakerState.CLOSED:
            return None
        return replace(_closed(held, command.reason, now), by_hand=True)
    if held is not None and _is_so(held, command):
        return None
    opening = open_breaker(held, command.name, policy, command.reason, now)
    until = None if command.open_for is None else now + command.open_for
    return replace(opening, by_hand=True, until=until, opened=held.opened if held else 0)


def _is_so(held: BreakerRow, command: BreakerSetRequestedData) -> bool:
    """It is open as asked for: the same word has come again."""
    return (
        held.state is BreakerState.OPEN
        and held.by_hand
        and held.reason == command.reason
        and (held.until is None) == (command.open_for is None)
    )


def _closed(held: BreakerRow, why: str, now: datetime) -> BreakerRow:
    return replace(
        held,
        version=held.version + 1,
        state=BreakerState.CLOSED,
        by_hand=False,
        since=now,
        until=None,
        opened=0,
        succeeded=0,
        reason=why,
    )
