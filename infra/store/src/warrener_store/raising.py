"""What a batch of raised occurrences makes of their cases. Pure; PostgreSQL says the same in SQL."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime

from warrener_store.escalations import CaseRow, Raised


@dataclass(frozen=True, slots=True)
class Opening:
    """The new occurrences of one fingerprint: the last of them, how many, and since when."""

    last: Raised
    times: int
    since: datetime


def openings(raised: Iterable[Raised]) -> list[Opening]:
    """One for each fingerprint, in their order."""
    of: dict[str, list[Raised]] = {}
    for each in raised:
        of.setdefault(each.fingerprint, []).append(each)
    return [
        Opening(max(many, key=_place), len(many), min(each.raised_at for each in many))
        for _, many in sorted(of.items())
    ]


def _place(raised: Raised) -> tuple[datetime, str]:
    return raised.raised_at, raised.occurrence


def once(raised: Iterable[Raised]) -> list[Raised]:
    """Each occurrence of a fingerprint once, the first of a batch."""
    first: dict[tuple[str, str], Raised] = {}
    for each in raised:
        first.setdefault((each.fingerprint, each.occurrence), each)
    return list(first.values())


def opened(held: CaseRow | None, opening: Opening) -> CaseRow:
    """The case as it is after this: new, begun anew, or counted further."""
    if held is None or held.closed_at is not None:
        return _fresh(opening, 1 if held is None else held.round + 1)
    last = opening.last
    wake_at = last.raised_at if held.wake_at is None else min(held.wake_at, last.raised_at)
    return replace(
        held,
        kind=last.kind,
        subject=last.subject,
        job_type=last.job_type,
        sample=last.sample,
        times=held.times + opening.times,
        last_seen_at=max(held.last_seen_at, last.raised_at),
        wake_at=wake_at,
    )


def _fresh(opening: Opening, turn: int) -> CaseRow:
    last = opening.last
    return CaseRow(
        fingerprint=last.fingerprint,
        kind=last.kind,
        subject=last.subject,
        job_type=last.job_type,
        sample=last.sample,
        times=opening.times,
        first_seen_at=opening.since,
        last_seen_at=last.raised_at,
        round=turn,
        wake_at=last.raised_at,
    )
