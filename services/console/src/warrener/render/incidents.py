"""Escalated incidents and circuit breakers as tables and pages. Pure."""

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from rich.console import Group
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from warrener.render.screen import facts_grid, one_line, table
from warrener.render.times import ago, clock, span
from warrener_contracts.circuit_breaker import BreakerState
from warrener_contracts.json_safety import is_object

if TYPE_CHECKING:
    from warrener_store.breakers.gate import BreakerRow
    from warrener_store.incidents.rows import IncidentRow

_BREAKER_SIGNS: dict[BreakerState, tuple[str, str]] = {
    BreakerState.CLOSED: ("●", "good"),
    BreakerState.HALF_OPEN: ("◐", "warning"),
    BreakerState.OPEN: ("○", "error"),
}


def incidents_table(rows: "Iterable[IncidentRow]", now: datetime) -> Table:
    """Incidents, one a line, the last raised first."""
    made = table(
        "incident", "what", "about", "times", "first", "last", "policy", "state", "said", right=("times",)
    )
    for row in rows:
        made.add_row(
            row.fingerprint,
            row.kind,
            row.job_type or row.subject,
            str(row.times),
            Text(ago(row.first_seen_at, now), style="soft"),
            Text(ago(row.last_seen_at, now), style="soft"),
            Text(_policy(row), style="soft"),
            incident_state(row, now),
            Text(one_line(_summary(row)), style="soft"),
        )
    return made


def incident_state(row: "IncidentRow", now: datetime) -> Text:
    """The state of an incident, by the fact that matters most."""
    if row.closed_at is not None:
        return Text(f"closed: {row.close_reason}", style="good")
    if row.snoozed_until is not None and row.snoozed_until > now:
        return Text(f"snoozed until {clock(row.snoozed_until)}", style="soft")
    if row.last_error is not None:
        return Text(f"step {row.step + 1}: {one_line(row.last_error)}", style="error")
    if row.acknowledged_by is not None:
        return Text(f"acknowledged by {row.acknowledged_by}", style="live")
    if row.wake_at is None:
        return Text(f"{row.step} steps done", style="warning")
    return Text(f"step {row.step + 1}, {ago(row.wake_at, now)}", style="warning")


def _policy(row: "IncidentRow") -> str:
    """The name and version of the policy that an incident follows, and the number of its restarts."""
    if row.policy_history is None or not row.policy_history.adoptions:
        return ""
    *earlier, current = row.policy_history.adoptions
    restarts = f", restart {len(earlier)}" if earlier else ""
    return f"{one_line(current.name)}@{current.version[:6]}{restarts}"


def _summary(row: "IncidentRow") -> str:
    error: object = row.sample.get("error")
    if is_object(error) and error.get("type"):
        return f"{error['type']}: {error.get('message', '')}"
    return str(row.sample.get("text", ""))


# -- circuit breakers --------------------------------------------------------------------------------------


def breakers_table(rows: "Iterable[BreakerRow]", now: datetime) -> Table:
    """Circuit breakers, one a line."""
    made = table("breaker", "state", "since", "next", "before", "why")
    for row in rows:
        made.add_row(
            row.name,
            _state(row.state),
            Text(ago(row.since, now), style="soft"),
            _next_change(row, now),
            ", ".join(row.job_types),
            Text(one_line(row.reason), style="soft"),
        )
    return made


def breaker_page(name: str, row: "BreakerRow | None", job_types: Sequence[str], now: datetime) -> Group:
    """One circuit breaker; `row` is None if it has never been open."""
    grid = facts_grid()
    grid.add_row("before", ", ".join(job_types))
    if row is not None:
        hand = ", by hand" if row.manual else ""
        grid.add_row("since", f"{clock(row.since)}, {ago(row.since, now)}{hand}")
        grid.add_row("why", row.reason)
        grid.add_row("next", _next_change(row, now) or "it counts on")
        policy = row.policy
        grid.add_row(
            "opens",
            f"when {policy.failure_rate:.0%} of at least {policy.minimum_calls} attempts within "
            f"{span(policy.window)} have failed; first probe after {span(policy.open_duration)}",
        )
    state = BreakerState.CLOSED if row is None else row.state
    head = Text.assemble(_state(state), "  ", (name, "key"))
    return Group(head, Padding(grid, (1, 0, 0, 2), expand=False))


def _state(state: BreakerState) -> Text:
    sign, style = _BREAKER_SIGNS[state]
    return Text(f"{sign} {state.value.replace('_', ' ')}", style=style)


def _next_change(row: "BreakerRow", now: datetime) -> str:
    if row.state is BreakerState.CLOSED:
        return ""
    if row.state is BreakerState.HALF_OPEN:
        return f"{row.probes_succeeded} of {row.policy.half_open_calls} probes have succeeded"
    if row.until is None:
        return f"until it is closed by hand: warrener breaker close {row.name}"
    return f"a probe {ago(max(row.until, now), now)}"
