"""A queue of commands: one typed function for each kind of event.

    commands = [Command(SchedulePut, self.put), Command(ScheduleRemoveRequested, one_by_one(self.remove))]
    inbox = CommandInbox(commands, on_unreadable=…, on_misrouted=…, publish=…)

A message is decoded, its events go to their functions in order, and what follows from them is published. Only
then may the message be acknowledged. Each event is judged by itself, also in a batch. Neighbours of one kind
go to their function together, so that a batch of thousands costs few transactions.
"""

from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any, Generic, NamedTuple, TypeVar

from warrener_contracts.codec import DecodedEvent, DecodeFailure
from warrener_contracts.events import Event
from warrener_contracts.inbox import decode_all
from warrener_contracts.messages import Message
from warrener_contracts.parking import ReceivedMessage
from warrener_contracts.topology import MAX_EVENTS, MAX_MESSAGE

E = TypeVar("E", bound=Event[Any])

Events = Sequence[DecodedEvent | DecodeFailure]
Publish = Callable[[Sequence[Message]], Awaitable[object]]


class ReceivedCommand(NamedTuple, Generic[E]):
    """A command, and the event as it was received, to park it."""

    event: E
    received: DecodedEvent


@dataclass(frozen=True, slots=True)
class Command(Generic[E]):
    """A kind of event, and the function that carries out neighbours of it and returns the messages that
    follow.

    The function must be repeatable, and raises only if the infrastructure fails.
    """

    kind: type[E]
    carry_out: Callable[[Sequence[ReceivedCommand[E]]], Awaitable[Iterable[Message]]]


def one_by_one(
    carry_out: Callable[[E, DecodedEvent], Awaitable[Iterable[Message]]],
) -> Callable[[Sequence[ReceivedCommand[E]]], Awaitable[Iterable[Message]]]:
    """Return a function for neighbours that calls `carry_out` for each."""

    async def carry_out_each(commands: Sequence[ReceivedCommand[E]]) -> list[Message]:
        return [message for one in commands for message in await carry_out(one.event, one.received)]

    return carry_out_each


@dataclass(frozen=True, slots=True)
class CommandRoute:
    """Messages that have commands of one kind alone."""

    kind: type[Event[Any]]
    inbox: "CommandInbox"

    def accepts(self, events: Events) -> bool:
        """True if every event of a message is such a command."""
        return bool(events) and all(
            isinstance(found, DecodedEvent) and type(found.event) is self.kind for found in events
        )

    async def carry_out(self, events: Events) -> None:
        """Carry out the commands of an accepted message, and publish what follows."""
        await self.inbox.carry_out(events)


class CommandInbox:
    """Decodes the messages of a queue of commands and has them carried out."""

    def __init__(
        self,
        commands: Iterable[Command[Any]],
        *,
        on_unreadable: Callable[[DecodeFailure], Iterable[Message]],
        on_misrouted: Callable[[DecodedEvent], Iterable[Message]],
        publish: Publish,
        max_events: int = MAX_EVENTS,
    ) -> None:
        """`on_unreadable` and `on_misrouted` return what is published for an event without a function."""
        self._by_kind: dict[type[Event[Any]], Command[Any]] = {command.kind: command for command in commands}
        self.routes = tuple(CommandRoute(kind, self) for kind in self._by_kind)
        self._on_unreadable = on_unreadable
        self._on_misrouted = on_misrouted
        self._publish = publish
        self._max_events = max_events

    async def decode(self, message: ReceivedMessage) -> Events:
        """Decode the events of a message."""
        [(_, events)] = await decode_all([message], limit=MAX_MESSAGE, max_events=self._max_events)
        return events

    async def carry_out(self, events: Events) -> None:
        """Carry out any message: also one with several kinds of events, or with unreadable ones."""
        messages: list[Message] = []
        for kind, neighbours in groupby(events, key=_kind_of):
            messages += await self._carry_out(kind, list(neighbours))
        await self._publish(messages)

    async def _carry_out(self, kind: type[Any], neighbours: Events) -> Iterable[Message]:
        failures = [found for found in neighbours if isinstance(found, DecodeFailure)]
        events = [found for found in neighbours if isinstance(found, DecodedEvent)]
        if command := self._by_kind.get(kind):
            return await command.carry_out([ReceivedCommand(found.event, found) for found in events])
        return [
            *(message for found in failures for message in self._on_unreadable(found)),
            *(message for found in events for message in self._on_misrouted(found)),
        ]


def _kind_of(found: DecodedEvent | DecodeFailure) -> type[Any]:
    return type(found.event) if isinstance(found, DecodedEvent) else DecodeFailure
