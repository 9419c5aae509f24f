"""A queue of commands: each event goes to the function of its kind, neighbours together, in their order."""

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from functools import partial
from typing import Any

import pytest
from contracts.wire.tests.deliveries import DeliveredMessage
from tools.reference.golden import golden_events

from warrener_contracts.codec import DecodedEvent, DecodeFailure, decode
from warrener_contracts.commands import (
    Command,
    CommandInbox,
    CommandReplies,
    CommandResult,
    ReceivedCommand,
    one_by_one,
)
from warrener_contracts.events import (
    CommandHandled,
    CommandHandledData,
    Event,
    Reason,
    SchedulePut,
    ScheduleRemoveRequested,
)
from warrener_contracts.messages import BATCH_TYPE, Message, build_message
from warrener_contracts.topology import DEAD, SCHEDULER_COMMANDS, reply_key

NOON = datetime(2013, 1, 1, 12, tzinfo=UTC)
PUT, REMOVE = golden_events()["schedule.put.v1"], golden_events()["schedule.remove_requested.v1"]


class Journal:
    """An inbox of two kinds, and its calls in order."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, ...]] = []
        self.published: list[Message] = []
        commands: list[Command[Any]] = [
            Command(SchedulePut, self._put),
            Command(ScheduleRemoveRequested, one_by_one(self._remove)),
        ]
        self.inbox = CommandInbox(
            SCHEDULER_COMMANDS.name,
            commands,
            on_unusable=self._unusable,
            publish=self._publish,
            replies=CommandReplies("warrener/scheduler", lambda: NOON),
        )

    async def receive(self, *events: bytes) -> None:
        """Receive a batch that was sent to the queue itself, so that no routing key limits its events."""
        await self.inbox.receive(DeliveredMessage(b"[" + b",".join(events) + b"]", BATCH_TYPE))

    def replies(self) -> list[tuple[str, CommandHandledData]]:
        return [
            (message.routing_key, found.event.data)
            for message in self.published
            for found in decode(message.body, message.content_type)
            if isinstance(found, DecodedEvent) and isinstance(found.event, CommandHandled)
        ]

    async def _put(self, commands: Sequence[ReceivedCommand[SchedulePut]]) -> list[CommandResult]:
        self.calls.append(("put", *(command.event.id for command in commands)))
        return [CommandResult([build_message(command.event)]) for command in commands]

    async def _remove(self, event: ScheduleRemoveRequested, received: DecodedEvent) -> CommandResult:
        assert received.event is event
        self.calls.append(("remove", event.id))
        return CommandResult([build_message(event)], refusal="it is unknown")

    def _unusable(self, found: DecodeFailure) -> Iterable[Message]:
        self.calls.append(("unusable", found.reason))
        return ()

    async def _publish(self, messages: Sequence[Message]) -> None:
        self.calls.append(("publish", str(len(messages))))
        self.published += messages


def command(event: Event[Any], name: str, reply_to: str | None = None) -> bytes:
    data = event.data.model_copy(update={"reply_to": reply_to})
    return build_message(event.model_copy(update={"id": name, "data": data})).body


put, remove = partial(command, PUT), partial(command, REMOVE)


async def test_no_command_overtakes_one_of_another_kind() -> None:
    journal = Journal()
    await journal.receive(put("1"), put("2"), remove("3"), remove("4"), put("5"))
    removals = [("remove", "3"), ("remove", "4")]
    assert journal.calls == [("put", "1", "2"), *removals, ("put", "5"), ("publish", "5")]


@pytest.mark.parametrize("others", [(), (remove("9"),)], ids=["one kind", "several kinds"])
async def test_each_requester_that_gave_an_address_gets_the_reply_to_its_own_command(
    others: tuple[bytes, ...],
) -> None:
    journal = Journal()
    await journal.receive(put("1", "desk-1"), put("2"), put("3", "desk-2"), *others)
    addresses = [(key, data.command_id) for key, data in journal.replies() if data.accepted]
    assert addresses == [(reply_key("desk-1"), "1"), (reply_key("desk-2"), "3")]


async def test_a_refusal_is_replied_with_its_reason() -> None:
    journal = Journal()
    await journal.receive(remove("4", "desk-1"))
    ((_, data),) = journal.replies()
    assert (data.accepted, data.detail) == (False, "it is unknown")


async def test_an_event_without_a_function_stops_no_other() -> None:
    journal = Journal()
    cancel = build_message(golden_events()["job.cancel_requested.v1"]).body
    unreadable = b'{"specversion":"1.0"}'
    await journal.receive(put("1"), unreadable, cancel, put("2"))
    parked = [("unusable", Reason.NOT_AN_EVENT), ("unusable", Reason.WRONG_QUEUE)]
    assert journal.calls == [("put", "1"), *parked, ("put", "2"), ("publish", "4")]
    assert [message.body for message in journal.published if message.exchange == DEAD] == [unreadable, cancel]
