"""The supervisor's commands: cancels, breakers, incidents and parked messages. One typed function each."""

from collections.abc import Sequence

from warrener_contracts.codec import DecodedEvent, DecodeFailure
from warrener_contracts.commands import (
    CARRIED_OUT,
    Command,
    CommandInbox,
    CommandReplies,
    CommandResult,
    ReceivedCommand,
    one_by_one,
)
from warrener_contracts.events import (
    BreakerSetRequested,
    IncidentAcknowledgeRequested,
    IncidentCloseRequested,
    IncidentSnoozeRequested,
    JobCancelRequested,
    ParkedDropRequested,
    ParkedRequeueRequested,
)
from warrener_contracts.messages import Message, cancel_behind_reports
from warrener_contracts.topology import SUPERVISOR_COMMANDS
from warrener_runtime.bus.port import Bus
from warrener_runtime.clock import Clock
from warrener_runtime.logs import get_logger
from warrener_supervisor import SOURCE, effects
from warrener_supervisor.breakers.monitor import BreakerMonitor
from warrener_supervisor.escalation.incident_reporter import IncidentCommand, IncidentReporter
from warrener_supervisor.requeue import ParkedCommand, ParkedMessageRequeuer

_log = get_logger("commands")


class SupervisorCommands:
    """Carries out commands. Their effects are published by the parts that carry them out."""

    def __init__(
        self,
        breakers: BreakerMonitor,
        incidents: IncidentReporter,
        requeuer: ParkedMessageRequeuer,
    ) -> None:
        self._breakers, self._incidents = breakers, incidents
        self._requeuer = requeuer

    async def cancel_jobs(
        self, commands: Sequence[ReceivedCommand[JobCancelRequested]]
    ) -> Sequence[CommandResult]:
        """Send cancels to the status queue, whose consumer replies. One that overtook a report of success
        would call a job cancelled whose effects are done."""
        return [CommandResult([cancel_behind_reports(event)], is_replied=True) for event, _ in commands]

    async def set_breaker(self, event: BreakerSetRequested, _: DecodedEvent) -> CommandResult:
        """Open or close a breaker."""
        refusal = await self._breakers.apply_command(event)
        return CARRIED_OUT if refusal is None else CommandResult(refusal=refusal)

    async def change_incidents(
        self, commands: Sequence[ReceivedCommand[IncidentCommand]]
    ) -> Sequence[CommandResult]:
        """Acknowledge, snooze or close incidents."""
        changed = await self._incidents.apply_commands([command.event for command in commands])
        return [
            CARRIED_OUT if event.data.fingerprint in changed else _unknown_incident(event.data.fingerprint)
            for event, _ in commands
        ]

    async def change_parked(
        self, commands: Sequence[ReceivedCommand[ParkedCommand]]
    ) -> Sequence[CommandResult]:
        """Requeue or drop parked messages."""
        await self._requeuer.carry_out([command.event for command in commands])
        return [CARRIED_OUT] * len(commands)


def _unknown_incident(fingerprint: str) -> CommandResult:
    return CommandResult(
        refusal=f"expected the fingerprint of an open incident, got {fingerprint!r}: "
        "see `warrener escalation list`"
    )


def supervisor_inbox(bus: Bus, clock: Clock, commands: SupervisorCommands, max_events: int) -> CommandInbox:
    """Assemble the functions of the commands that the supervisor receives."""

    def reject(found: DecodeFailure) -> list[Message]:
        _log.warning(
            "A command that cannot be used was parked.",
            action="commands.unusable",
            reason=found.reason,
            detail=found.detail,
        )
        return []

    return CommandInbox(
        SUPERVISOR_COMMANDS.name,
        [
            Command(JobCancelRequested, commands.cancel_jobs),
            Command(BreakerSetRequested, one_by_one(commands.set_breaker)),
            Command(IncidentAcknowledgeRequested, commands.change_incidents),
            Command(IncidentSnoozeRequested, commands.change_incidents),
            Command(IncidentCloseRequested, commands.change_incidents),
            Command(ParkedRequeueRequested, commands.change_parked),
            Command(ParkedDropRequested, commands.change_parked),
        ],
        replies=CommandReplies(SOURCE, clock.now),
        on_unusable=reject,
        publish=lambda messages: effects.publish(bus, messages, clock),
        max_events=max_events,
    )
