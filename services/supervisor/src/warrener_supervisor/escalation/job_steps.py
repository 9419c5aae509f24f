"""Run the steps that act on each dead job of an incident: request it once more, or request its compensation.

The ids of the requests are derived from the dead job's, so that a repeat requests the same job.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import datetime
from uuid import UUID, uuid5

from warrener_contracts.events import JobRequested, JobRequestedData
from warrener_contracts.messages import Message, build_message
from warrener_contracts.policy import PolicyOverrides
from warrener_contracts.state_machine import JobState
from warrener_contracts.templates import render
from warrener_contracts.topology import MAX_BODY
from warrener_runtime.clock import Clock
from warrener_runtime.logs import get_logger
from warrener_store.incidents.rows import ALL_STEPS_DONE, IncidentOccurrence, IncidentRow
from warrener_store.jobs.rows import JobRow
from warrener_store.store import StateStore
from warrener_supervisor import SOURCE
from warrener_supervisor.escalation.decisions import step_name
from warrener_supervisor.escalation.facts import compensation_values
from warrener_supervisor.escalation.policy import CompensateStep, EscalationStep

_log = get_logger("escalation")

_BATCH_SIZE = 500
_NAMED = 20  # jobs in a log line
RETRY_SOURCE = f"{SOURCE}/escalation/retry"
"""Source of the requests that a policy retries; it does not retry such a job again."""
COMPENSATION_SOURCE = f"{SOURCE}/escalation/compensate"


class Unfinished(Exception):
    """Some jobs were not requested; the others of their page were."""


class EscalationRequestTooLarge(ValueError):
    """The request is larger than a scheduler accepts."""


class JobSteps:
    """Requests page by page; a page is saved after the broker has confirmed it."""

    def __init__(
        self, store: StateStore, publish: Callable[[Sequence[Message]], Awaitable[object]], clock: Clock
    ) -> None:
        self._store, self._incidents = store, store.escalations
        self._publish, self._clock = publish, clock

    async def run(
        self,
        incident: IncidentRow,
        step: EscalationStep,
        place: int,
        *,
        was_there: Callable[[datetime], bool],
        give_up: bool,
    ) -> str | None:
        """Run `step`, the policy's at `place`, for each entry that has not passed it.

        Jobs that died before the step `was_there` are passed over. Raises Unfinished if some must wait, or
        failed and another try may help. With `give_up`, failed ones are passed over, too. Returns why jobs
        were passed over.
        """
        given_up, early = None, 0
        while entries := await self._incidents.pending(incident.fingerprint, place + 1, _BATCH_SIZE):
            bad, waiting, too_early = await self._page(incident, step, entries, place, was_there)
            early += too_early
            if bad and give_up:
                given_up = _log_passed_over(incident, bad)
                await self._incidents.settle(incident.fingerprint, bad.keys(), place + 1)
            elif bad:
                raise Unfinished(f"{len(bad)} jobs: {next(iter(bad.values()))}")
            if waiting:
                raise Unfinished(f"{waiting} jobs are being retried: their ends are awaited")
        if early:
            passed = f"passed over {early} jobs that died before {step_name(step)} was in the policy"
            given_up = passed if given_up is None else f"{given_up}; {passed}"
        return given_up

    async def _page(
        self,
        incident: IncidentRow,
        step: EscalationStep,
        entries: Sequence[IncidentOccurrence],
        place: int,
        was_there: Callable[[datetime], bool],
    ) -> tuple[Mapping[str, str], int, int]:
        """Request the jobs for one page of entries; return those that cannot be requested, with the reason,
        how many must wait, and how many died before the step was in their policy."""
        rows = await self._jobs_of(entries)
        await self._settle_mended(incident, entries, rows)
        messages: list[Message] = []
        bad: dict[str, str] = {}
        waiting: set[str] = set()
        early, now = list[str](), self._clock.now()
        for entry in entries:
            row = rows.get(UUID(entry.occurrence))
            if row is None or _mended(row.job_id, rows):
                continue
            retried = rows.get(retry_job_id(row.job_id))
            if not was_there(row.finished_at or entry.raised_at):
                early.append(entry.occurrence)
                continue
            try:
                if not isinstance(step, CompensateStep):
                    if row.source != RETRY_SOURCE:
                        messages.append(retry_request(row, now))
                elif retried is not None and not retried.state.terminal:
                    waiting.add(entry.occurrence)
                else:
                    messages.append(compensation_request(row, incident, step, now))
            except ValueError as error:
                bad[entry.occurrence] = str(error)
        if early:
            _log.warning(
                "A step passed over jobs that died before the step was in their policy."
                " Request them by hand.",
                action="escalation.died_before_policy",
                fingerprint=incident.fingerprint,
                step=step_name(step),
                jobs=len(early),
                job_ids=early[:_NAMED],
            )
        await self._publish(messages)
        left = waiting | bad.keys()
        done = [entry.occurrence for entry in entries if entry.occurrence not in left]
        await self._incidents.settle(incident.fingerprint, done, place + 1)
        return bad, len(waiting), len(early)

    async def all_mended(self, incident: IncidentRow) -> bool:
        """True if each job that was requested once more has succeeded; those need no further step."""
        while True:
            entries = await self._incidents.pending(incident.fingerprint, ALL_STEPS_DONE, _BATCH_SIZE)
            rows = await self._jobs_of(entries)
            mended = await self._settle_mended(incident, entries, rows)
            if mended < len(entries):
                return False
            if not entries:
                return True

    async def _settle_mended(
        self, incident: IncidentRow, entries: Sequence[IncidentOccurrence], rows: Mapping[UUID, JobRow]
    ) -> int:
        jobs = {entry.occurrence: UUID(entry.occurrence) for entry in entries}
        mended = [name for name, job_id in jobs.items() if job_id in rows and _mended(job_id, rows)]
        if mended:
            await self._incidents.settle(incident.fingerprint, mended, ALL_STEPS_DONE)
        return len(mended)

    async def _jobs_of(self, entries: Sequence[IncidentOccurrence]) -> Mapping[UUID, JobRow]:
        """Load the dead jobs, and the jobs requested in their place."""
        dead = [UUID(entry.occurrence) for entry in entries]
        return await self._store.jobs_by_id({*dead, *map(retry_job_id, dead)}) if dead else {}


def _mended(job_id: UUID, rows: Mapping[UUID, JobRow]) -> bool:
    """True if the job that was requested in place of this one has succeeded."""
    retried = rows.get(retry_job_id(job_id))
    return retried is not None and retried.state is JobState.SUCCEEDED


def _log_passed_over(incident: IncidentRow, bad: Mapping[str, str]) -> str:
    """Log each of them by name."""
    for job_id, why in bad.items():
        _log.error(
            "A policy passed over a dead job, because it cannot make the request for it.",
            action="escalation.job_skipped",
            fingerprint=incident.fingerprint,
            job_id=job_id,
            reason=why,
        )
    return f"passed over {len(bad)} jobs: {next(iter(bad.values()))}"


def retry_job_id(job_id: UUID) -> UUID:
    """Return the id of the job that a policy requests in place of this dead one."""
    return uuid5(job_id, "escalation retry")


def compensation_job_id(job_id: UUID, job_type: str) -> UUID:
    """Return the id of the compensating job of this type."""
    return uuid5(job_id, f"escalation compensation\n{job_type}")


def retry_request(row: JobRow, now: datetime) -> Message:
    """Request the dead job once more, without its deadline, which may have passed."""
    policy = {name: getattr(row.policy, name) for name in PolicyOverrides.model_fields}
    data = JobRequestedData(
        job_type=row.job_type,
        arguments=row.arguments,
        queue=row.queue,
        parent_id=row.job_id,
        policy=PolicyOverrides(**policy),
    )
    return _message(retry_job_id(row.job_id), RETRY_SOURCE, row, data, now)


def compensation_request(row: JobRow, incident: IncidentRow, step: CompensateStep, now: datetime) -> Message:
    """Request a job of another type with the dead job's data.

    Raises TemplateError if the template names an argument that the job does not have,
    EscalationRequestTooLarge if no scheduler would accept it.
    """
    values = compensation_values(row, incident)
    given = {name: values[name] for name in ("job_id", "job_type", "arguments", "error")}
    data = JobRequestedData(
        job_type=step.job_type,
        arguments=given if step.arguments is None else render(step.arguments, values),
        queue=step.queue,
        parent_id=row.job_id,
    )
    # A job and its retry have one compensation.
    original = row.parent_id if row.source == RETRY_SOURCE and row.parent_id else row.job_id
    return _message(compensation_job_id(original, step.job_type), COMPENSATION_SOURCE, row, data, now)


def _message(job_id: UUID, source: str, row: JobRow, data: JobRequestedData, now: datetime) -> Message:
    event = JobRequested(
        id=str(job_id),
        source=source,
        time=now,
        subject=str(job_id),
        traceparent=row.traceparent,
        tracestate=row.tracestate,
        baggage=row.baggage,
        data=data,
    )
    message = build_message(event)
    if len(message.body) > MAX_BODY:
        raise EscalationRequestTooLarge(
            f"expected a request of at most {MAX_BODY} bytes, got {len(message.body)}"
        )
    return message
