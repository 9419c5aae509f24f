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

from warrener.places import Places
from warrener.running import client_at, store_at
from warrener.shown.screen import err, out
from warrener.shown.tables import table
from warrener.shown.times import ago
from warrener_contracts.events import (
    Event,
    ParkedDropRequested,
    ParkedDropRequestedData,
    ParkedRequeueRequested,
    ParkedRequeueRequestedData,
)
from warrener_runtime.clock import SystemEntropy
from warrener_store import Store
from warrener_store.parked import ParkedAt, ParkedFilter, ParkedGroup

_SOURCE = "warrener.command"
_IN_ONE_EVENT = 200
_LOOK_EVERY = 0.1  # seconds
_INSTANT = timedelta(microseconds=1)


_Page = Mapping[str, tuple[int, datetime]]


@dataclass(frozen=True, slots=True)
class Command:
    """What is asked of which messages, by whom and why."""

    what: Literal["requeue", "drop"]
    which: ParkedFilter
    by: str
    why: str


@dataclass(frozen=True, slots=True)
class Parked:
    """The messages that are meant, by queue and reason."""

    groups: Sequence[ParkedGroup]

    @property
    def messages(self) -> int:
        """How many they are."""
        return sum(group.messages for group in self.groups)

    @property
    def plan(self) -> dict[str, Any]:
        """For machines."""
        return {"messages": self.messages, "groups": [group._asdict() for group in self.groups]}


@dataclass(slots=True)
class Result:
    """What became of them. `left`: no supervisor has carried it out, or the broker took them not."""

    asked: Literal["requeue", "drop"]
    done: int = 0
    parked_again: list[str] = field(default_factory=list[str])
    left: list[str] = field(default_factory=list[str])


async def plan(places: Places, command: Command) -> Parked:
    """What would be done."""
    async with store_at(places) as store:
        return Parked(await store.group_parked(command.which))


async def carry_out(places: Places, command: Command, found: Parked, *, wait: float) -> Result:
    """Ask for it, page by page, and see what becomes of each page."""
    result = Result(command.what)
    # What is parked from now on, again or for the first time, is not meant.
    until = max(group.last for group in found.groups) + _INSTANT
    which = replace(command.which, before=min(until, command.which.before or until))
    async with store_at(places) as store, client_at(places) as client:
        with err().status("[soft]the broker keeps it; a supervisor carries it out[/]") as status:
            async for page in _pages(store, which):
                await client.send(_event(command, tuple(page)))
                await _look_on(store, page, result, wait)
                status.update(f"{result.done} of {found.messages}")
    return result


async def _pages(store: Store, which: ParkedFilter) -> AsyncIterator[_Page]:
    """The messages by id, with how often and when each was parked."""
    after: ParkedAt | None = None
    while page := await store.list_parked(which, _IN_ONE_EVENT, after):
        after = ParkedAt(page[-1].parked_at, page[-1].parked_id)
        yield {message.parked_id: (message.times, message.parked_at) for message in page}


async def _look_on(store: Store, page: _Page, result: Result, wait: float) -> None:
    until = monotonic() + wait
    while True:
        found = await store.list_parked(ParkedFilter(ids=list(page)), len(page))
        still = {one.parked_id: (one.times, one.parked_at) for one in found}
        same = [name for name, parked in still.items() if parked == page[name]]
        if not same or monotonic() >= until:
            break
        await asyncio.sleep(_LOOK_EVERY)
    result.done += len(page) - len(still)
    result.parked_again += [name for name in still if name not in same]
    result.left += same


def _event(command: Command, ids: tuple[str, ...]) -> Event[Any]:
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


def tell_plan(found: Parked, command: Command, *, yes: bool) -> None:
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


def tell_result(result: Result) -> None:
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
