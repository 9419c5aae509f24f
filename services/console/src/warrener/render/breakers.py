"""Circuit breakers as people read them. Pure."""

from collections.abc import Iterable, Sequence
from datetime import datetime

from rich.console import Group
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from warrener.render.tables import one_line, table
from warrener.render.times import ago, clock, span
from warrener_contracts.circuit_breaker import BreakerState
from warrener_store.breakers.gate import BreakerRow

_SIGNS: dict[BreakerState, tuple[str, str]] = {
    BreakerState.CLOSED: ("●", "good"),
    BreakerState.HALF_OPEN: ("◐", "odd"),
    BreakerState.OPEN: ("○", "bad"),
}


def breakers_table(rows: Iterable[BreakerRow], now: datetime) -> Table:
    """Those that have ever been open."""
    made = table("breaker", "state", "since", "next", "before", "why")
    for row in rows:
        made.add_row(
            row.name,
            _state(row.state),
            Text(ago(row.since, now), style="soft"),
            _next(row, now),
            ", ".join(row.job_types),
            Text(one_line(row.reason), style="soft"),
        )
    return made


def breaker_page(name: str, row: BreakerRow | None, behind: Sequence[str], now: datetime) -> Group:
    """How one stands, and when it turns."""
    grid = Table.grid(padding=(0, 2, 0, 0))
    grid.add_column(style="soft")
    grid.add_column()
    grid.add_row("before", ", ".join(behind))
    if row is not None:
        hand = ", by hand" if row.by_hand else ""
        grid.add_row("since", f"{clock(row.since)}, {ago(row.since, now)}{hand}")
        grid.add_row("why", row.reason)
        grid.add_row("next", _next(row, now) or "it goes on counting")
        policy = row.policy
        grid.add_row(
            "opens",
            f"when {policy.failure_rate:.0%} of at least {policy.at_least} attempts within "
            f"{span(policy.window)} have failed; first probe after {span(policy.cooldown)}",
        )
    state = BreakerState.CLOSED if row is None else row.state
    head = Text.assemble(_state(state), "  ", (name, "key"))
    return Group(head, Padding(grid, (1, 0, 0, 2), expand=False))


def describe_hold(row: BreakerRow, now: datetime) -> str:
    """Why a job waits that this breaker is before, and for what."""
    if row.state is BreakerState.HALF_OPEN:
        return f"held back by {row.name}: it goes on when the probes of the breaker have succeeded"
    return (
        f"held back by {row.name}, open since {clock(row.since)} ({one_line(row.reason)}); {_next(row, now)}"
    )


def _state(state: BreakerState) -> Text:
    sign, style = _SIGNS[state]
    return Text(f"{sign} {state.value.replace('_', ' ')}", style=style)


def _next(row: BreakerRow, now: datetime) -> str:
    if row.state is BreakerState.CLOSED:
        return ""
    if row.state is BreakerState.HALF_OPEN:
        return f"{row.succeeded} of {row.policy.probes} probes have succeeded"
    if row.until is None:
        return f"until somebody closes it: warrener breaker close {row.name}"
    return f"a probe {ago(max(row.until, now), now)}"
