"""The effect of a batch of raised occurrences on their incidents. Pure; PostgreSQL computes the same in
SQL."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime

from warrener_store.incidents.rows import IncidentRow, RaisedIncident


@dataclass(frozen=True, slots=True)
class IncidentUpdate:
    """The new occurrences of one fingerprint: the last of them, their number and the first moment."""

    last: RaisedIncident
    times: int
    since: datetime


def aggregate_raised(raised: Iterable[RaisedIncident]) -> list[IncidentUpdate]:
    """One update for each fingerprint, sorted by fingerprint."""
    of: dict[str, list[RaisedIncident]] = {}
    for each in raised:
        of.setdefault(each.fingerprint, []).append(each)
    return [
        IncidentUpdate(max(many, key=_place), len(many), min(each.raised_at for each in many))
        for _, many in sorted(of.items())
    ]


def _place(raised: RaisedIncident) -> tuple[datetime, str]:
    return raised.raised_at, raised.occurrence


def unique_raised(raised: Iterable[RaisedIncident]) -> list[RaisedIncident]:
    """The first of a batch of each occurrence of a fingerprint."""
    first: dict[tuple[str, str], RaisedIncident] = {}
    for each in raised:
        first.setdefault((each.fingerprint, each.occurrence), each)
    return list(first.values())


def apply_update(held: IncidentRow | None, incident_update: IncidentUpdate) -> IncidentRow:
    """The incident after this update: new, reopened, or with a greater count."""
    if held is None or held.closed_at is not None:
        return _new_incident(incident_update, 1 if held is None else held.round + 1)
    last = incident_update.last
    wake_at = last.raised_at if held.wake_at is None else min(held.wake_at, last.raised_at)
    return replace(
        held,
        kind=last.kind,
        subject=last.subject,
        job_type=last.job_type,
        sample=last.sample,
        times=held.times + incident_update.times,
        last_seen_at=max(held.last_seen_at, last.raised_at),
        wake_at=wake_at,
    )


def _new_incident(incident_update: IncidentUpdate, turn: int) -> IncidentRow:
    last = incident_update.last
    return IncidentRow(
        fingerprint=last.fingerprint,
        kind=last.kind,
        subject=last.subject,
        job_type=last.job_type,
        sample=last.sample,
        times=incident_update.times,
        first_seen_at=incident_update.since,
        last_seen_at=last.raised_at,
        round=turn,
        wake_at=last.raised_at,
    )
