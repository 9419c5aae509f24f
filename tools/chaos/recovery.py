"""How long the system took to recover from each fault, as reliability.md in docs defines it. Pure."""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from tools.chaos.history import FaultFact, History

_BEFORE = 15.0  # seconds whose median rate is what the system has to come back to, by half
_WINDOW = 1.0
_STEP = 0.1
_LONGEST = 300.0


@dataclass(frozen=True, slots=True)
class Recovery:
    """From the end of one fault: `rate` until jobs end at half of their former rate, `last_job` until the
    last plain job that was requested before has ended. None: not in this run."""

    fault: FaultFact
    rate: float | None
    last_job: float | None
    touched: int


@dataclass(frozen=True, slots=True)
class KindSummary:
    """What the table says of one kind."""

    kind: str
    faults: int
    in_flight: int
    rate_p50: float | None
    rate_max: float | None
    last_job_p50: float | None
    last_job_max: float | None


def recoveries(history: History, faults: Sequence[FaultFact]) -> list[Recovery]:
    """One for each fault, in order."""
    ended = first_endings(history)
    times = sorted(ended.values())
    found: list[Recovery] = []
    for fault in faults:
        touched = [
            request.job
            for request in history.requests
            if request.plain
            and request.at < fault.ended
            and ended.get(request.job, float("inf")) > fault.ended
        ]
        ends = [ended.get(job) for job in touched]
        last = (
            None
            if any(end is None for end in ends)
            else max((end - fault.ended for end in ends if end is not None), default=0.0)
        )
        found.append(Recovery(fault, rate_recovery(times, fault), last, len(touched)))
    return found


def first_endings(history: History) -> dict[str, float]:
    """When each job first entered a terminal state."""
    ended: dict[str, float] = {}
    for ending in sorted(history.endings, key=lambda one: one.at):
        ended.setdefault(ending.job, ending.at)
    return ended


def rate_recovery(times: Sequence[float], fault: FaultFact) -> float | None:
    """Seconds from the fault's end to the first second in which jobs ended at half of the former rate."""
    begin = max(times[0] if times else fault.begun, fault.begun - _BEFORE)
    seconds = max(1, int(fault.begun - begin))
    before = [_count(times, fault.begun - n - 1, fault.begun - n) for n in range(seconds)]
    wanted = median(before) / 2
    waited = 0.0
    while waited < _LONGEST:
        begun = fault.ended + waited
        if times and begun > times[-1]:
            return None
        if _count(times, begun, begun + _WINDOW) >= wanted:
            return round(waited, 1)
        waited += _STEP
    return None


def summaries(found: Sequence[Recovery]) -> list[KindSummary]:
    """By kind, in the order of their names."""
    kinds: Mapping[str, list[Recovery]] = defaultdict(list)
    for recovery in found:
        kinds[recovery.fault.kind].append(recovery)
    return [
        KindSummary(
            kind,
            len(some),
            int(median([one.fault.in_flight for one in some])),
            _median([one.rate for one in some]),
            _most([one.rate for one in some]),
            _median([one.last_job for one in some]),
            _most([one.last_job for one in some]),
        )
        for kind, some in sorted(kinds.items())
    ]


def _count(times: Sequence[float], begun: float, ended: float) -> int:
    return bisect_left(times, ended) - bisect_left(times, begun)


def _median(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return median(known) if known else None


def _most(values: Sequence[float | None]) -> float | None:
    """None if any is unknown: it took longer than this run."""
    return (
        None
        if any(value is None for value in values)
        else max((v for v in values if v is not None), default=None)
    )
