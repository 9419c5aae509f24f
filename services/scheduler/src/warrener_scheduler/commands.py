"""The scheduler's commands: schedules, and redrives of dead letters. One typed function each."""

from collections.abc import Sequence

from warrener_contracts.codec import DecodedEvent, DecodeFailure
from warrener_contracts.commands import Command, CommandInbox, CommandReplies, one_by_one
from warrener_contracts.events import (
    JobDropRequested,
    JobRedriveRequested,
    Reason,
    RedriveChangeRequested,
    ScheduleBackfillRequested,
    SchedulePauseRequested,
    SchedulePut,
    ScheduleRemoveRequested,
    ScheduleResumeRequested,
    ScheduleTriggerRequested,
)
from warrener_contracts.messages import Message
from warrener_contracts.parking import park_event
from warrener_contracts.topology import SCHEDULER_COMMANDS
from warrener_runtime.bus.port import Bus
from warrener_runtime.clock import Clock
from warrener_runtime.logs import get_logger
from warrener_scheduler.messages import SOURCE, unreadable_messages
from warrener_scheduler.publishing import publish
from warrener_scheduler.redrive import RedriveRunner
from warrener_scheduler.schedules.commands import ScheduleCommandHandler

_log = get_logger("commands")
_QUEUE = SCHEDULER_COMMANDS.name


def scheduler_inbox(
    bus: Bus, clock: Clock, schedules: ScheduleCommandHandler, redrives: RedriveRunner, max_events: int
) -> CommandInbox:
    """Assemble the functions of the commands that the scheduler receives."""

    def reject(found: DecodeFailure) -> list[Message]:
        _log.warning(
            "An unreadable command was parked.",
            action="commands.unreadable",
            reason=found.reason,
            detail=found.detail,
        )
        return unreadable_messages(found, clock.now(), _QUEUE)

    def park(found: DecodedEvent) -> list[Message]:
        detail = f"expected a command of the scheduler here, got {found.event.type}"
        return [park_event(found, _QUEUE, Reason.WRONG_QUEUE, detail)]

    async def publish_following(messages: Sequence[Message]) -> None:
        await publish(bus, messages, clock)

    return CommandInbox(
        [
            Command(SchedulePut, schedules.put),
            Command(SchedulePauseRequested, one_by_one(schedules.pause)),
            Command(ScheduleResumeRequested, one_by_one(schedules.resume)),
            Command(ScheduleRemoveRequested, one_by_one(schedules.remove)),
            Command(ScheduleTriggerRequested, one_by_one(schedules.trigger)),
            Command(ScheduleBackfillRequested, one_by_one(schedules.backfill)),
            Command(JobRedriveRequested, one_by_one(redrives.begin)),
            Command(JobDropRequested, one_by_one(redrives.begin)),
            Command(RedriveChangeRequested, one_by_one(redrives.change)),
        ],
        replies=CommandReplies(SOURCE, clock.now),
        on_unreadable=reject,
        on_misrouted=park,
        publish=publish_following,
        max_events=max_events,
    )
