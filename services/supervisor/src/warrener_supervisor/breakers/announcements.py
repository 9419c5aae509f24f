"""What is said about breakers. Pure."""

from datetime import datetime

from warrener_contracts import topology
from warrener_contracts.events import BreakerChanged, BreakerChangedData
from warrener_contracts.messages import Message, build_message
from warrener_store.rows import BreakerRow
from warrener_supervisor.source import SOURCE


def change_messages(row: BreakerRow) -> list[Message]:
    """A breaker has turned: to the world, and to the agents."""
    return [build_message(_event(row, row.since)), agents_message(row, row.since)]


def agents_message(row: BreakerRow, now: datetime) -> Message:
    """How it stands, to every agent. Not kept: who misses it hears the next one."""
    return build_message(_event(row, now))._replace(
        exchange=topology.CONTROL, routing_key="all", persistent=False, mandatory=False
    )


def _event(row: BreakerRow, now: datetime) -> BreakerChanged:
    return BreakerChanged(
        id=f"{row.name}:{row.version}",
        source=SOURCE,
        time=now,
        subject=row.name,
        data=BreakerChangedData(
            name=row.name,
            state=row.state,
            since=row.since,
            until=row.until,
            reason=row.reason,
            job_types=row.job_types,
        ),
    )
