"""Raise incidents, and apply the commands of people to them."""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from datetime import datetime

from warrener_contracts import events
from warrener_runtime.clock import Clock
from warrener_runtime.logs import get_logger
from warrener_store.errors import StoreRefused
from warrener_store.incidents.rows import MIXED_QUEUE, IncidentChange, RaisedIncident
from warrener_store.incidents.store import Escalations
from warrener_store.jobs.rows import AttemptOutcome, JobRow
from warrener_supervisor.decisions.cause import fingerprint as cause_of
from warrener_supervisor.decisions.context import JobTransition
from warrener_supervisor.decisions.delays import count_uncharged
from warrener_supervisor.decisions.judge import JobBatch
from warrener_supervisor.escalation.facts import sample_of
from warrener_supervisor.escalation.policy import DEAD

_log = get_logger("escalation")

_LASTING = 3  # released attempts above which the cause is no short deployment
_NAME = 200  # characters of a fingerprint
IncidentCommand = (
    events.IncidentAcknowledgeRequested | events.IncidentSnoozeRequested | events.IncidentCloseRequested
)


class IncidentReporter:
    """Raises incidents.

    A batch is one statement. A repeat counts once, so a consumer that raises before it acknowledges loses
    nothing and counts nothing twice.
    """

    def __init__(self, incidents: Escalations, clock: Clock) -> None:
        self._incidents = incidents
        self._clock = clock

    async def raise_incident(
        self,
        kind: str,
        subject: str,
        fingerprint: str,
        data: events.JsonObject,
        *,
        occurrence: str | None = None,
        job_type: str | None = None,
    ) -> None:
        """Raise a problem with `subject`: one alert for each `fingerprint`, until its incident is closed.

        Alerts may name the fields of `data`; `text` in it is their text. A repeat of the same `occurrence`
        counts once; None makes each call an occurrence of its own.
        """
        now = self._clock.now()
        raised = RaisedIncident(
            kind=kind,
            fingerprint=fingerprint,
            occurrence=occurrence or f"{subject}@{now.isoformat()}",
            subject=subject,
            job_type=job_type,
            sample=data,
            raised_at=now,
        )
        await self.raise_incidents([raised])

    async def raise_incidents(self, raised: Sequence[RaisedIncident]) -> None:
        """Raise these. Those that the store refuses are logged and lost: a bug must not stop the queue."""
        if not raised:
            return
        try:
            await self._incidents.raise_incidents(raised)
        except StoreRefused:
            _log.exception(
                "Incidents could not be raised, which is a bug.",
                action="escalation.refused",
                incidents=len(raised),
            )

    async def raise_dead_jobs(self, rows: Iterable[JobRow]) -> None:
        """Raise an incident for each cause of death."""
        now = self._clock.now()
        raised = [
            RaisedIncident(
                kind=DEAD,
                fingerprint=cause_of(row.job_type, row.error),
                occurrence=str(row.job_id),
                subject=str(row.job_id),
                job_type=row.job_type,
                sample=sample_of(row),
                raised_at=now,
            )
            for row in rows
        ]
        await self.raise_incidents(raised)

    async def apply_commands(self, commands: Sequence[IncidentCommand]) -> Collection[str]:
        """Apply commands and return the fingerprints; one about no open incident is only logged."""
        if not commands:
            return ()
        now = self._clock.now()
        changes = [_change(command, now) for command in commands]
        found = await self._incidents.change_incidents(changes)
        for change in changes:
            known = change.fingerprint in found
            log = _log.info if known else _log.warning
            log(
                "An incident was changed." if known else "A command names no open incident.",
                action="escalation.changed" if known else "escalation.unknown_incident",
                fingerprint=change.fingerprint,
            )
        return found


def _change(command: IncidentCommand, now: datetime) -> IncidentChange:
    data, change = command.data, IncidentChange(fingerprint=command.data.fingerprint, at=now)
    match command:
        case events.IncidentAcknowledgeRequested():
            return replace(change, acknowledged_by=data.by)
        case events.IncidentSnoozeRequested():
            return replace(change, snoozed_until=command.data.until)
        case events.IncidentCloseRequested():
            return replace(change, close_reason=f"by {data.by}: {command.data.reason}")


def mixed_queues(judged: Iterable[JobBatch], now: datetime) -> list[RaisedIncident]:
    """Return an incident for each queue and job type of which a job was released for the third time or later.

    Its agents know different job types. Within a minute it counts once.
    """
    found = {
        (batch.row.queue, batch.row.job_type): _raised(batch.row, error, now)
        for batch in judged
        if (error := _given_back(batch)) is not None and count_uncharged(batch.row) >= _LASTING
    }
    return list(found.values())


def _given_back(batch: JobBatch) -> events.ErrorInfo | None:
    """Return the error of an attempt that was released because its agent could not run it."""
    attempts = (decision.attempt for _, decision in batch.decisions if isinstance(decision, JobTransition))
    return next((each.error for each in attempts if each and each.outcome is AttemptOutcome.RELEASED), None)


def _raised(row: JobRow, error: events.ErrorInfo, now: datetime) -> RaisedIncident:
    text = f"jobs of {row.job_type} wait in queue {row.queue} for an agent that can run it: {error.message}"
    return RaisedIncident(
        kind=MIXED_QUEUE,
        fingerprint=f"{MIXED_QUEUE}:{row.queue}:{row.job_type}"[:_NAME],
        occurrence=now.isoformat(timespec="minutes"),
        subject=row.queue,
        job_type=row.job_type,
        sample={"text": text},
        raised_at=now,
    )
