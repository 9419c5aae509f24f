"""The one door by which a trouble becomes a case, and by which people are heard about cases."""

from collections.abc import Iterable, Sequence
from datetime import datetime

from warrener_contracts.events import (
    IncidentAcknowledgeRequested,
    IncidentCloseRequested,
    IncidentSnoozeRequested,
    JsonObject,
)
from warrener_runtime.clock import Clock
from warrener_runtime.logs import get_logger
from warrener_store.escalations import CaseChange, Escalations, RaisedIncident
from warrener_store.port import StoreRefused
from warrener_store.rows import JobRow
from warrener_supervisor.escalation.facts import sample_of
from warrener_supervisor.escalation.model import DEAD
from warrener_supervisor.fingerprint import fingerprint as cause_of

_log = get_logger("escalation")

IncidentCommand = IncidentAcknowledgeRequested | IncidentSnoozeRequested | IncidentCloseRequested


class IncidentReporter:
    """Raises cases. A batch is one statement; what is raised again is counted once, so whoever raises before
    it acknowledges loses nothing and counts nothing twice."""

    def __init__(self, cases: Escalations, clock: Clock) -> None:
        self._cases = cases
        self._clock = clock

    async def raise_case(
        self,
        kind: str,
        subject: str,
        fingerprint: str,
        data: JsonObject,
        *,
        occurrence: str | None = None,
        job_type: str | None = None,
    ) -> None:
        """Something is wrong with `subject`. One alert for each `fingerprint`, until its case is closed.

        `data` is what alerts may name; `text` in it is what they say. `occurrence` is the same whenever this
        same time is raised again; None makes each call a time of its own.
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
        await self.raise_cases([raised])

    async def raise_cases(self, raised: Sequence[RaisedIncident]) -> None:
        """All of these. What the store refuses is told in the log and lost: a bug must not stop the queue."""
        if not raised:
            return
        try:
            await self._cases.raise_cases(raised)
        except StoreRefused:
            _log.exception(
                "Cases could not be raised: a bug.", action="escalation.refused", cases=len(raised)
            )

    async def raise_dead_jobs(self, rows: Iterable[JobRow]) -> None:
        """These jobs are dead."""
        now = self._clock.now()
        await self.raise_cases(
            [
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
        )

    async def apply_commands(self, commands: Sequence[IncidentCommand]) -> None:
        """What people say about cases; about what is not open it says nothing but a line in the log."""
        if not commands:
            return
        now = self._clock.now()
        changes = [_change(command, now) for command in commands]
        found = await self._cases.change_cases(changes)
        for change in changes:
            known = change.fingerprint in found
            log = _log.info if known else _log.warning
            log(
                "A case was changed." if known else "There is no open case by that name.",
                action="escalation.heard" if known else "escalation.unknown_case",
                fingerprint=change.fingerprint,
            )


def _change(command: IncidentCommand, now: datetime) -> CaseChange:
    data = command.data
    match command:
        case IncidentAcknowledgeRequested():
            return CaseChange(fingerprint=data.fingerprint, at=now, acknowledged_by=data.by)
        case IncidentSnoozeRequested():
            return CaseChange(fingerprint=data.fingerprint, at=now, snoozed_until=command.data.until)
        case IncidentCloseRequested():
            return CaseChange(
                fingerprint=data.fingerprint, at=now, closed_why=f"by {data.by}: {command.data.reason}"
            )
