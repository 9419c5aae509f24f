"""A queue of commands: one typed function for each kind of event.

    commands = [Command(SchedulePut, self.put), Command(ScheduleRemoveRequested, one_by_one(self.remove))]
    inbox = CommandInbox(queue, commands, on_unusable=…, publish=…)

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
from warrener_contracts.inbox import Inbox, ParkedEvent, ReceivedMessage, original_user
from warrener_contracts.messages import Message, build_reply
from warrener_contracts.topology import MAX_EVENTS

E = TypeVar("E", bound=Event[Any])

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
    """A command, the event as it was received, to park it, and the broker's user that sent it."""

    event: E
    received: DecodedEvent
    user_id: str | None


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


class CommandInbox:
    """Receives the messages of a queue of commands: decodes them and has them carried out."""

    def __init__(
        self,
        queue: str,
        commands: Iterable[Command[Any]],
        *,
        on_unusable: Callable[[DecodeFailure], Iterable[Message]],
        publish: Publish,
        replies: CommandReplies,
        max_events: int = MAX_EVENTS,
    ) -> None:
        """`on_unusable` returns the replies to an event without a function, which is parked."""
        self._by_kind = {command.kind: command for command in commands}
        self._inbox = Inbox(queue, self._by_kind.keys(), max_events=max_events)
        self._replies = replies
        self._on_unusable = on_unusable
        self._publish = publish

    async def receive(self, message: ReceivedMessage) -> None:
        """Carry out any message: also one with several kinds of events, or with unreadable ones. Repeatable;
        raises only if the infrastructure fails."""
        [(_, events)] = await self._inbox.read([message])
        messages: list[Message] = []
        for kind, neighbours in groupby(events, key=_kind_of):
            messages += await self._carry_out(kind, list(neighbours), original_user(message))
        await self._publish(messages)

    async def _carry_out(
        self, kind: type[Any], neighbours: Sequence[DecodedEvent | ParkedEvent], user_id: str | None
    ) -> list[Message]:
        messages: list[Message] = []
        commands: list[ReceivedCommand[Any]] = []
        for found in neighbours:
            if isinstance(found, ParkedEvent):
                messages += [*self._on_unusable(found.failure), found.message]
            else:
                commands.append(ReceivedCommand(found.event, found, user_id))
        results = await self._by_kind[kind].carry_out(commands) if commands else ()
        for one, result in zip(commands, results, strict=True):
            messages += self._replies.messages(one.event, result)
        return messages


def _kind_of(found: DecodedEvent | ParkedEvent) -> type[Any]:
    return ParkedEvent if isinstance(found, ParkedEvent) else type(found.event)
