"""A queue of commands: one typed function for each kind of event.

    inbox = CommandInbox([Command(SchedulePut, self.put), …], on_unreadable=…, on_misrouted=…, publish=…)

A message is decoded, its events go to their functions in order, and what follows from them is published. Only
then may the message be acknowledged. Each event is judged by itself, also in a batch.
"""

from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from warrener_contracts.codec import DecodedEvent, DecodeFailure
from warrener_contracts.events import Event
from warrener_contracts.inbox import decode_all
from warrener_contracts.messages import Message
from warrener_contracts.parking import ReceivedMessage
from warrener_contracts.topology import MAX_EVENTS, MAX_MESSAGE

E = TypeVar("E", bound=Event[Any])

Events = Sequence[DecodedEvent | DecodeFailure]
Publish = Callable[[Sequence[Message]], Awaitable[object]]


@dataclass(frozen=True, slots=True)
class Command(Generic[E]):
    """A kind of event, and the function that carries it out and returns the messages that follow.

    The function also gets the event as it was received, to park it. It must be repeatable, and raises only if
    the infrastructure fails.
    """

    kind: type[E]
    carry_out: Callable[[E, DecodedEvent], Awaitable[Iterable[Message]]]


@dataclass(frozen=True, slots=True)
class CommandRoute:
    """Messages that have commands of one kind alone."""

    command: Command[Any]
    publish: Publish

    def accepts(self, events: Events) -> bool:
        """True if every event of a message is such a command."""
        return bool(events) and all(
            isinstance(found, DecodedEvent) and type(found.event) is self.command.kind for found in events
        )

    async def carry_out(self, events: Events) -> None:
        """Carry out the commands of an accepted message, and publish what follows."""
        messages: list[Message] = []
        for found in events:
            if isinstance(found, DecodedEvent):
                messages += await self.command.carry_out(found.event, found)
        await self.publish(messages)


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
        self.routes = tuple(CommandRoute(command, publish) for command in commands)
        self._by_kind = {route.command.kind: route.command for route in self.routes}
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
        for found in events:
            messages += await self._carry_out(found)
        await self._publish(messages)

    async def _carry_out(self, found: DecodedEvent | DecodeFailure) -> Iterable[Message]:
        if isinstance(found, DecodeFailure):
            return self._on_unreadable(found)
        command = self._by_kind.get(type(found.event))
        return self._on_misrouted(found) if command is None else await command.carry_out(found.event, found)
