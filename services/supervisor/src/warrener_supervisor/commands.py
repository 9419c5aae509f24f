"""The supervisor's commands: cancels, breakers, incidents and parked messages. One typed function each."""

from collections.abc import Sequence

from warrener_contracts import events
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
from warrener_contracts.messages import Message, cancel_behind_reports
from warrener_contracts.topology import SUPERVISOR_COMMANDS
from warrener_runtime.logs import get_logger
from warrener_supervisor import SOURCE
from warrener_supervisor.breakers.monitor import BreakerMonitor
from warrener_supervisor.effects import SupervisorPorts
from warrener_supervisor.escalation.incident_reporter import IncidentCommand, IncidentReporter
from warrener_supervisor.requeue import ParkedCommand, ParkedMessageRequeuer

_log = get_logger("commands")


def supervisor_inbox(
    ports: SupervisorPorts,
    max_events: int,
    *,
    breakers: BreakerMonitor,
    incidents: IncidentReporter,
    requeuer: ParkedMessageRequeuer,
) -> CommandInbox:
    """Assemble the functions of the supervisor's commands. The parts that act publish the effects."""

    async def cancel_jobs(
        commands: Sequence[ReceivedCommand[events.JobCancelRequested]],
    ) -> Sequence[CommandResult]:
        # By the status queue, whose consumer replies. A cancel that overtook a report of success would call
        # a job cancelled whose effects are done.
        return [CommandResult([cancel_behind_reports(event)], is_replied=True) for event, _ in commands]

    async def set_breaker(event: events.BreakerSetRequested, _: DecodedEvent) -> CommandResult:
        refusal = await breakers.apply_command(event)
        return CARRIED_OUT if refusal is None else CommandResult(refusal=refusal)

    async def change_incidents(commands: Sequence[ReceivedCommand[IncidentCommand]]) -> list[CommandResult]:
        changed = await incidents.apply_commands([command.event for command in commands])
        names = [event.data.fingerprint for event, _ in commands]
        expected, hint = "expected the fingerprint of an open incident", "see `warrener escalation list`"
        return [
            CARRIED_OUT if name in changed else CommandResult(refusal=f"{expected}, got {name!r}: {hint}")
            for name in names
        ]

    async def change_parked(commands: Sequence[ReceivedCommand[ParkedCommand]]) -> list[CommandResult]:
        await requeuer.carry_out([command.event for command in commands])
        return [CARRIED_OUT] * len(commands)

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
            Command(events.JobCancelRequested, cancel_jobs),
            Command(events.BreakerSetRequested, one_by_one(set_breaker)),
            Command(events.IncidentAcknowledgeRequested, change_incidents),
            Command(events.IncidentSnoozeRequested, change_incidents),
            Command(events.IncidentCloseRequested, change_incidents),
            Command(events.ParkedRequeueRequested, change_parked),
            Command(events.ParkedDropRequested, change_parked),
        ],
        replies=CommandReplies(SOURCE, ports.clock.now),
        on_unusable=reject,
        publish=ports.publish,
        max_events=max_events,
    )
