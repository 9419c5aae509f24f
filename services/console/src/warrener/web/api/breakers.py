"""Circuit breakers: those that job types name, and how they stand."""

from datetime import datetime

from fastapi import APIRouter
from pydantic import BaseModel

from warrener.render.times import brief
from warrener.web.api import ConsoleOfApp
from warrener.web.console import Console
from warrener_contracts.circuit_breaker import BreakerState, breakers_for
from warrener_store.breakers.gate import BreakerRow

router = APIRouter(tags=["breakers"])

_MAX_CLOSED = 500  # breakers that have never been open


class BreakerSummary(BaseModel):
    """A circuit breaker. One that was never open has no `since`, and is closed."""

    name: str
    state: BreakerState
    job_types: list[str]
    by_hand: bool = False
    since: datetime | None = None
    until: datetime | None = None  # of the next probe; None while it is open: until it is closed by hand
    reason: str = ""
    times_opened: int = 0
    probes_succeeded: int = 0
    probes_needed: int = 0
    rule: str = ""


class BreakersPage(BaseModel):
    """All circuit breakers: open ones first, then those that were open, then the others by name."""

    breakers: list[BreakerSummary]


_ORDER = {BreakerState.OPEN: 0, BreakerState.HALF_OPEN: 1, BreakerState.CLOSED: 2}


async def list_breakers(console: Console) -> BreakersPage:
    """List the circuit breakers of all job types."""
    job_types: dict[str, list[str]] = {}
    for job_type, row in sorted((await console.store.job_types()).items()):
        for name in breakers_for(job_type, row.policy.depends_on):
            job_types.setdefault(name, []).append(job_type)
    stored = {row.name: row for row in await console.store.breakers()}
    never = sorted(job_types.keys() - stored.keys())[:_MAX_CLOSED]
    known = [_summary(row, job_types.get(name, list(row.job_types))) for name, row in stored.items()]
    others = [
        BreakerSummary(name=name, state=BreakerState.CLOSED, job_types=job_types[name]) for name in never
    ]
    known.sort(key=lambda one: (_ORDER[one.state], one.name))
    return BreakersPage(breakers=[*known, *others])


def _summary(row: BreakerRow, job_types: list[str]) -> BreakerSummary:
    policy = row.policy
    return BreakerSummary(
        name=row.name,
        state=row.state,
        job_types=job_types,
        by_hand=row.manual,
        since=row.since,
        until=row.until,
        reason=row.reason,
        times_opened=row.times_opened,
        probes_succeeded=row.probes_succeeded,
        probes_needed=policy.half_open_calls,
        rule=f"opens when {policy.failure_rate:.0%} of at least {policy.minimum_calls} attempts within "
        f"{brief(policy.window)} have failed; first probe after {brief(policy.open_duration)}",
    )


@router.get("/breakers")
async def get_breakers(console: ConsoleOfApp) -> BreakersPage:
    """List all circuit breakers."""
    return await list_breakers(console)
