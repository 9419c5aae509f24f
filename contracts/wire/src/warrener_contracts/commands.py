"""A queue of commands: one typed function for each kind of event.

    commands = [Command(SchedulePut, self.put), Command(ScheduleRemoveRequested, one_by_one(self.remove))]
    inbox = CommandInbox(commands, on_unreadable=…, on_misrouted=…, publish=…)

A message is decoded, its events go to their functions in order, and what follows from them is published, with
the reply to each requester who gave an address. Only then may the message be acknowledged. Each event is
judged by itself, also in a batch. Neighbours of one kind go to their function together, so that a batch of
thousands costs few transactions.
"""

from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import groupby
from typing import Any, Generic, NamedTuple, TypeVar
from uuid import uuid5

from warrener_contracts.codec import DecodedEvent, DecodeFailure
from warrener_contracts.events import CommandHandled, CommandHandledData, Event
from warrener_contracts.identity import job_id_of
from warrener_contracts.inbox import decode_all
from warrener_contracts.messages import Message, build_reply
from warrener_contracts.parking import ReceivedMessage
from warrener_contracts.topology import MAX_EVENTS, MAX_MESSAGE

E = TypeVar("E", bound=Event[Any])

Events = Sequence[DecodedEvent | DecodeFailure]
Publish = Callable[[Sequence[Message]], Awaitable[object]]


@dataclass(frozen=True, slots=True)
class CommandResult:
    """The messages that follow from a command, and the reply to its requester.

    `refusal`: why nothing was changed. `is_replied`: the messages hold the reply.
    """

    messages: Sequence[Message] = ()
    refusal: str | None = None
    detail: str = ""
    is_replied: bool = False


CARRIED_OUT = CommandResult()


class ReceivedCommand(NamedTuple, Generic[E]):
    """A command, and the event as it was received, to park it."""

    event: E
    received: DecodedEvent


@dataclass(frozen=True, slots=True)
class Command(Generic[E]):
    """A kind of event, and the function that carries out neighbours of it: one result for each, in order.

    The function must be repeatable, and raises only if the infrastructure fails.
    """

    kind: type[E]
    carry_out: Callable[[Sequence[ReceivedCommand[E]]], Awaitable[Sequence[CommandResult]]]


def one_by_one(
    carry_out: Callable[[E, DecodedEvent], Awaitable[CommandResult]],
) -> Callable[[Sequence[ReceivedCommand[E]]], Awaitable[Sequence[CommandResult]]]:
    """Return a function for neighbours that calls `carry_out` for each."""

    async def carry_out_each(commands: Sequence[ReceivedCommand[E]]) -> list[CommandResult]:
        return [await carry_out(one.event, one.received) for one in commands]

    return carry_out_each


@dataclass(frozen=True, slots=True)
class CommandReplies:
    """Makes the replies of the service `source`."""

    source: str
    now: Callable[[], datetime]

    def messages(self, event: Event[Any], result: CommandResult) -> list[Message]:
        """The messages of a result, and the reply if the requester gave an address."""
        address = getattr(event.data, "reply_to", None)
        if address is None or result.is_replied:
            return list(result.messages)
        reply = CommandHandled(
            id=str(uuid5(job_id_of(event.source, event.id), f"{event.type}\nhandled")),
            source=self.source,
            time=self.now(),
            subject=event.subject,
            traceparent=event.traceparent,
            tracestate=event.tracestate,
            data=CommandHandledData(
                command_id=event.id,
                command_source=event.source,
                command=event.type,
                accepted=result.refusal is None,
                detail=result.detail if result.refusal is None else result.refusal,
            ),
        )
        return [*result.messages, build_reply(reply, address)]


@dataclass(frozen=True, slots=True)
class CommandRoute:
    """Messages that have commands of one kind alone."""

    command: Command[Any]
    replies: CommandReplies
    publish: Publish

    def accepts(self, events: Events) -> bool:
        """True if every event of a message is such a command."""
        return bool(events) and all(_kind_of(found) is self.command.kind for found in events)

    async def carry_out(self, events: Events) -> None:
        """Carry out the commands of an accepted message, and publish what follows."""
        await self.publish(await self.messages(events))

    async def messages(self, events: Events) -> list[Message]:
        """Carry out commands; return the messages that follow from them, and the replies."""
        commands = _commands(events)
        results = await self.command.carry_out(commands)
        return [
            message
            for command, result in zip(commands, results, strict=True)
            for message in self.replies.messages(command.event, result)
        ]


class CommandInbox:
    """Decodes the messages of a queue of commands and has them carried out."""

    def __init__(
        self,
        commands: Iterable[Command[Any]],
        *,
        on_unreadable: Callable[[DecodeFailure], Iterable[Message]],
        on_misrouted: Callable[[DecodedEvent], Iterable[Message]],
        publish: Publish,
        replies: CommandReplies,
        max_events: int = MAX_EVENTS,
    ) -> None:
        """`on_unreadable` and `on_misrouted` return what is published for an event without a function."""
        self.routes = tuple(CommandRoute(command, replies, publish) for command in commands)
        self._by_kind = {route.command.kind: route for route in self.routes}
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
        if route := self._by_kind.get(kind):
            return await route.messages(neighbours)
        return [
            message
            for found in neighbours
            for message in (
                self._on_unreadable(found) if isinstance(found, DecodeFailure) else self._on_misrouted(found)
            )
        ]


def _kind_of(found: DecodedEvent | DecodeFailure) -> type[Any]:
    return type(found.event) if isinstance(found, DecodedEvent) else DecodeFailure


def _commands(events: Events) -> list[ReceivedCommand[Any]]:
    return [ReceivedCommand(found.event, found) for found in events if isinstance(found, DecodedEvent)]
