"""Asking the supervisor to send parked messages in again or to drop them, and looking on.

The store says which messages are meant; the request names them by id, at most 200 in one event, so that each
event is carried out in bounded time and a repeat of it finds nothing left to do.
"""

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from time import monotonic
from typing import Any, Literal

from warrener.command_runner import connect_client, connect_store
from warrener.endpoints import ResolvedEndpoints
from warrener.render.screen import err, out
from warrener.render.tables import table
from warrener.render.times import ago
from warrener_contracts.events import (
    Event,
    ParkedDropRequested,
    ParkedDropRequestedData,
    ParkedRequeueRequested,
    ParkedRequeueRequestedData,
)
from warrener_runtime.clock import SystemEntropy
from warrener_store import Store
from warrener_store.parked.rows import ParkedAt, ParkedFilter, ParkedGroup

_SOURCE = "warrener.command"
_IN_ONE_EVENT = 200
_LOOK_EVERY = 0.1  # seconds
_INSTANT = timedelta(microseconds=1)


_Page = Mapping[str, tuple[int, datetime]]


@dataclass(frozen=True, slots=True)
class ParkedCommand:
    """What is asked of which messages, by whom and why."""

    what: Literal["requeue", "drop"]
    which: ParkedFilter
    by: str
    why: str


@dataclass(frozen=True, slots=True)
class ParkedSelection:
    """The messages that are meant, by queue and reason."""

    groups: Sequence[ParkedGroup]

    @property
    def messages(self) -> int:
        """How many they are."""
        return sum(group.messages for group in self.groups)

    @property
    def preview(self) -> dict[str, Any]:
        """For machines."""
        return {"messages": self.messages, "groups": [group._asdict() for group in self.groups]}


@dataclass(slots=True)
class ParkedCommandResult:
    """What became of them. `left`: no supervisor has carried it out, or the broker took them not."""

    asked: Literal["requeue", "drop"]
    done: int = 0
    parked_again: list[str] = field(default_factory=list[str])
    left: list[str] = field(default_factory=list[str])


async def preview(endpoints: ResolvedEndpoints, command: ParkedCommand) -> ParkedSelection:
    """What would be done."""
    async with connect_store(endpoints) as store:
        return ParkedSelection(await store.group_parked(command.which))


async def execute(
    endpoints: ResolvedEndpoints, command: ParkedCommand, found: ParkedSelection, *, wait: float
) -> ParkedCommandResult:
    """Ask for it, page by page, and see what becomes of each page."""
    result = ParkedCommandResult(command.what)
    # What is parked from now on, again or for the first time, is not meant.
    until = max(group.last for group in found.groups) + _INSTANT
    which = replace(command.which, before=min(until, command.which.before or until))
    async with connect_store(endpoints) as store, connect_client(endpoints) as client:
        with err().status("[soft]the broker keeps it; a supervisor carries it out[/]") as status:
            async for page in _pages(store, which):
                await client.send(_event(command, tuple(page)))
                await _wait_for_changes(store, page, result, wait)
                status.update(f"{result.done} of {found.messages}")
    return result


async def _pages(store: Store, which: ParkedFilter) -> AsyncIterator[_Page]:
    """The messages by id, with how often and when each was parked."""
    after: ParkedAt | None = None
    while page := await store.list_parked(which, _IN_ONE_EVENT, after):
        after = ParkedAt(page[-1].parked_at, page[-1].parked_id)
        yield {message.parked_id: (message.times, message.parked_at) for message in page}


async def _wait_for_changes(store: Store, page: _Page, result: ParkedCommandResult, wait: float) -> None:
    until = monotonic() + wait
    while True:
        found = await store.list_parked(ParkedFilter(ids=list(page)), len(page))
        remaining = {one.parked_id: (one.times, one.parked_at) for one in found}
        unchanged = [name for name, parked in remaining.items() if parked == page[name]]
        if not unchanged or monotonic() >= until:
            break
        await asyncio.sleep(_LOOK_EVERY)
    result.done += len(page) - len(remaining)
    result.parked_again += [name for name in remaining if name not in unchanged]
    result.left += unchanged


def _event(command: ParkedCommand, ids: tuple[str, ...]) -> Event[Any]:
    envelope: dict[str, Any] = {
        "id": str(SystemEntropy().new_id()),
        "source": _SOURCE,
        "time": datetime.now(UTC),
    }
    if command.what == "drop":
        return ParkedDropRequested(
            **envelope, data=ParkedDropRequestedData(ids=ids, by=command.by, reason=command.why)
        )
    return ParkedRequeueRequested(**envelope, data=ParkedRequeueRequestedData(ids=ids, by=command.by))


def print_preview(found: ParkedSelection, command: ParkedCommand, *, yes: bool) -> None:
    """What would be done."""
    if not found.messages:
        err().print("[soft]No parked message is like that.[/]")
        return
    now = datetime.now(UTC)
    shown = table("queue", "reason", "messages", "first", "last", right=("messages",))
    for group in found.groups:
        shown.add_row(
            group.queue, group.reason, str(group.messages), ago(group.first, now), ago(group.last, now)
        )
    out().print(shown)
    if not yes:
        err().print(f"[odd]![/] nothing was done; to {command.what} these {found.messages}: --yes")


def print_result(result: ParkedCommandResult) -> None:
    """What became of them."""
    done = "sent in again" if result.asked == "requeue" else "dropped"
    err().print(f"[good]✓[/] {result.done} {done}")
    if result.parked_again:
        err().print(
            f"[odd]![/] {len(result.parked_again)} could not be used again and are parked: warrener parked"
        )
    if result.left:
        err().print(
            f"[odd]![/] {len(result.left)} are still parked: no supervisor has carried it out yet, the "
            "broker did not take them, or only their beginning is kept"
        )
