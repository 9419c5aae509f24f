"""The supervisor's commands: of jobs, breakers, gates, incidents, parked messages. One function each."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

from pydantic_core import to_json

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
from warrener_contracts.identity import job_id_of
from warrener_contracts.messages import Message, cancel_behind_reports
from warrener_contracts.topology import SUPERVISOR_COMMANDS
from warrener_runtime.logs import get_logger
from warrener_store.jobs.rows import JobRow
from warrener_store.workflows.rows import MAX_SIGNALS, SignalRow
from warrener_supervisor import SOURCE
from warrener_supervisor.breakers.monitor import BreakerMonitor
from warrener_supervisor.cancel_tree import CancelMarks, member_cancels
from warrener_supervisor.effects import SupervisorPorts
from warrener_supervisor.escalation.incident_reporter import IncidentCommand, IncidentReporter
from warrener_supervisor.limits import SlotKeeper
from warrener_supervisor.requeue import ParkedCommand, ParkedMessageRequeuer
from warrener_supervisor.workflow_turns import TurnMaker

_log = get_logger("commands")


def supervisor_inbox(
    ports: SupervisorPorts,
    max_events: int,
    *,
    marks: CancelMarks,
    breakers: BreakerMonitor,
    slots: SlotKeeper,
    turns: TurnMaker,
    incidents: IncidentReporter,
    requeuer: ParkedMessageRequeuer,
) -> CommandInbox:
    """Assemble the functions of the supervisor's commands. The parts that act publish the effects."""

    async def cancel_jobs(
        commands: Sequence[ReceivedCommand[events.JobCancelRequested]],
    ) -> Sequence[CommandResult]:
        # By the status queue, whose consumer replies. A cancel that overtook a report of success would call
        # a job cancelled whose effects are done.
        # Those of the jobs of a batch go out one batch after the other: there may be hundreds of both.
        refusals = await marks.refusals(commands)
        if refused := [why for why in refusals if why is not None]:
            _log.warning(
                "Cancels of unknown jobs were refused.",
                action="commands.cancels_refused",
                cancels=len(refused),
                detail=refused[0],
            )
        for (event, *_), why in zip(commands, refusals, strict=True):
            if event.data.members is not None and why is None:
                await ports.publish(await member_cancels(ports.store, event, ports.clock.now()))
        return [
            CommandResult(
                [cancel_behind_reports(event, user_id)] if event.data.members is None else [], is_replied=True
            )
            if why is None
            else CommandResult(refusal=why)
            for (event, _, user_id), why in zip(commands, refusals, strict=True)
        ]

    received_until = datetime.min.replace(tzinfo=UTC)

    async def send_signals(
        commands: Sequence[ReceivedCommand[events.JobSignalRequested]],
    ) -> Sequence[CommandResult]:
        nonlocal received_until
        # A microsecond apart, also from those before: workflows receive them in the order of their times.
        first = max(ports.clock.now(), received_until)
        received_until = first + timedelta(microseconds=len(commands))
        rows = await ports.store.jobs_by_id({event.data.job_id for event, *_ in commands})
        results = [signal_result(event, rows.get(event.data.job_id)) for event, *_ in commands]
        received = [
            SignalRow(
                job_id=event.data.job_id,
                signal_id=str(job_id_of(event.source, event.id)),  # two senders may have one id
                name=event.data.name,
                data=event.data.data,
                received_at=first + timedelta(microseconds=place),
            )
            for place, ((event, *_), result) in enumerate(zip(commands, results, strict=True))
            if result.refusal is None
        ]
        refused = {row.signal_id for row in await ports.store.keep_signals(received)}
        await turns.wake({row.job_id for row in received if row.job_id in rows})
        too_many = CommandResult(
            refusal=f"expected at most {MAX_SIGNALS} signals for a workflow, got one more"
        )
        return [
            too_many if str(job_id_of(event.source, event.id)) in refused else result
            for (event, *_), result in zip(commands, results, strict=True)
        ]

    async def end_hold(event: events.JobContinueRequested, _: DecodedEvent) -> CommandResult:
        return await turns.end_hold(event)

    async def set_breaker(event: events.BreakerSetRequested, _: DecodedEvent) -> CommandResult:
        refusal = await breakers.apply_command(event)
        return CARRIED_OUT if refusal is None else CommandResult(refusal=refusal)

    async def set_gate(event: events.GateSetRequested, _: DecodedEvent) -> CommandResult:
        refusal = await slots.set_slots(event)
        return CARRIED_OUT if refusal is None else CommandResult(refusal=refusal)

    async def change_incidents(commands: Sequence[ReceivedCommand[IncidentCommand]]) -> list[CommandResult]:
        changed = await incidents.apply_commands([command.event for command in commands])
        names = [event.data.fingerprint for event, *_ in commands]
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
            Command(events.JobSignalRequested, send_signals),
            Command(events.JobContinueRequested, one_by_one(end_hold)),
            Command(events.BreakerSetRequested, one_by_one(set_breaker)),
            Command(events.GateSetRequested, one_by_one(set_gate)),
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


def signal_result(event: events.JobSignalRequested, row: JobRow | None) -> CommandResult:
    """Accept or refuse a signal for the job of `row`; None: no request with its id has come yet."""
    if (size := len(to_json(event.data.data, inf_nan_mode="null"))) > events.MAX_ANSWER:
        return CommandResult(
            refusal=f"expected data of at most {events.MAX_ANSWER} bytes of JSON, got {size}: "
            "store it elsewhere"
        )
    if row is None:
        return CommandResult(detail="no request with this id has come yet; the signal is stored for it")
    if (end := row.ending or row.state).terminal:
        state = f"ends as {end.value}" if row.ending else f"is {end.value}"
        return CommandResult(refusal=f"expected a workflow that has not ended, got one that {state}")
    return CARRIED_OUT
