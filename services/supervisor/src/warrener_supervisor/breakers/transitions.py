"""How a breaker turns: from what it is, what has ended, and the time. Pure."""

from dataclasses import replace
from datetime import datetime, timedelta

from warrener_contracts.circuit_breaker import BreakerPolicy, BreakerState
from warrener_contracts.events import BreakerSetRequestedData
from warrener_store.rows import BreakerRow
from warrener_supervisor.breakers.attribution import AttemptCounts

PROBE_TIMEOUT = timedelta(seconds=10)
"""So long a probe has to end, before others are let through beside it."""


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
