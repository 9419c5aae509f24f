"""Queues whose agents know different job types, from the jobs that were given back again and again. Pure."""

from collections.abc import Iterable
from datetime import datetime

from warrener_contracts.events import ErrorInfo
from warrener_store.escalations import MIXED_QUEUE, RaisedIncident
from warrener_store.rows import AttemptEnd, JobRow
from warrener_supervisor.batch import JobBatch
from warrener_supervisor.delays import count_uncharged
from warrener_supervisor.verdicts import JobTransition

_LASTING = 3
"""Attempts given back, from which on it is no deployment of a moment."""
_NAME = 200  # characters of a fingerprint


def mixed_queues(judged: Iterable[JobBatch], now: datetime) -> list[RaisedIncident]:
    """An incident for each queue and job type of which a job was given back for the third time or later. Of
    all that happens in one minute, one time is counted."""
    found = {
        (batch.row.queue, batch.row.job_type): _raised(batch.row, error, now)
        for batch in judged
        if (error := _given_back(batch)) is not None and count_uncharged(batch.row) >= _LASTING
    }
    return list(found.values())


def _given_back(batch: JobBatch) -> ErrorInfo | None:
    """Why an attempt was given back that its agent could not run."""
    attempts = (decision.attempt for _, decision in batch.decisions if isinstance(decision, JobTransition))
    return next((each.error for each in attempts if each and each.end is AttemptEnd.RELEASED), None)


def _raised(row: JobRow, error: ErrorInfo, now: datetime) -> RaisedIncident:
    text = f"jobs of {row.job_type} wait in queue {row.queue} for an agent that knows it: {error.message}"
    return RaisedIncident(
        kind=MIXED_QUEUE,
        fingerprint=f"{MIXED_QUEUE}:{row.queue}:{row.job_type}"[:_NAME],
        occurrence=now.isoformat(timespec="minutes"),
        subject=row.queue,
        job_type=row.job_type,
        sample={"text": text},
        raised_at=now,
    )
