"""The judge of a chaos run: pure, and tested to fail (tests/test_checker.py feeds it each violation)."""

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations

from tools.chaos.effects import Record
from tools.chaos.history import TERMINAL, WORKFLOWS, Freeze, History, JobFact, Request

EARLY = 0.5  # seconds before its time that count as early
LATE = 5.0
"""Seconds that an end has to reach the agents: a handler may start meanwhile, as it was claimed before."""
_UNDONE_WITH = {"reserve": "release", "charge": "refund"}
_TRANSACTIONAL = {
    "chaos.book",
    "chaos.ship",
    *(f"chaos.{one}" for pair in _UNDONE_WITH.items() for one in pair),
}
_PROOF = frozenset({"start", "work", "done", "failed"})


@dataclass(frozen=True, slots=True)
class Violation:
    """A promise that did not hold."""

    kind: str
    job: str
    detail: str


KINDS = (
    "lost",
    "stuck",
    "wrong end",
    "ended twice",
    "effects twice",
    "effect missing",
    "two at once",
    "start after end",
    "unknown result",
    "key changed",
    "child missing",
    "early",
    "tick missing",
    "tick twice",
    "answer missing",
    "answer wrong",
    "left in queue",
    "piece not mended",
    "called twice",
    "half an order",
    "signals wrong",
)
"""What the checker looks for; a report names all of them, with zeros."""


def check(history: History) -> list[Violation]:
    """Every violation in the history."""
    runs = _runs(history.records)
    return [
        *_requests(history),
        *_endings(history),
        *_transactional(history),
        *_overlaps(history, runs),
        *_late_starts(history, runs),
        *_results(history, runs),
        *_children(history),
        *_early(history, runs),
        *_ticks(history),
        *_answers(history),
        *_calls(history),
        *_orders(history),
        *(
            Violation("left in queue", queue, f"{count} messages when all was quiet")
            for queue, count in history.left_in_queues.items()
            if count and history.settled
        ),
        *(
            Violation("piece not mended", one.what, "missing until the harness put it back")
            for one in history.unmended
        ),
    ]


def overlapping(first: Sequence[Record], second: Sequence[Record], freezes: Sequence[Freeze]) -> bool:
    """True if two executions were at work at one moment; a frozen process is not at work."""
    ours, theirs = _live(first, freezes), _live(second, freezes)
    return any(a < d and c < b for a, b in ours for c, d in theirs)


def _runs(records: Sequence[Record]) -> dict[str, dict[str, list[Record]]]:
    """The records by job and run, in the order of their stamps."""
    found: dict[str, dict[str, list[Record]]] = defaultdict(lambda: defaultdict(list))
    for record in sorted(records, key=lambda one: one.at):
        found[record.job][record.run].append(record)
    return found


def _live(run: Sequence[Record], freezes: Sequence[Freeze]) -> list[tuple[float, float]]:
    """When an execution was at work: from its start to its last proof, less the freezes of its process.

    That a handler was cancelled is no proof of work: a frozen agent that wakes up must cancel it.
    """
    proofs = [record.at for record in run if record.what in _PROOF]
    spans = [(run[0].at, proofs[-1] if proofs else run[0].at)]
    for freeze in freezes:
        if run[0].pid in freeze.pids:
            spans = [
                part
                for begun, ended in spans
                for part in ((begun, min(ended, freeze.begun)), (max(begun, freeze.ended), ended))
                if part[0] < part[1]
            ]
    return spans


def _requests(history: History) -> Iterator[Violation]:
    for request in history.requests:
        job = history.jobs.get(request.job)
        if job is None:
            if history.settled:
                yield Violation("lost", request.job, f"{request.job_type}: confirmed, and no row knows it")
        elif job.state not in TERMINAL:
            if history.settled:
                yield Violation("stuck", request.job, _describe(job))
        elif request.expected not in ("any", job.state) and not _given_up(history, request, job):
            yield Violation("wrong end", request.job, f"{_describe(job)}; expected {request.expected}")
    known = {request.job for request in history.requests}
    for job in history.jobs.values():
        if job.job not in known and job.state not in TERMINAL and history.settled:
            yield Violation("stuck", job.job, _describe(job))


def _endings(history: History) -> Iterator[Violation]:
    ends: dict[str, list[str]] = defaultdict(list)
    for ending in history.endings:
        ends[ending.job].append(f"{ending.old} -> {ending.new}")
    for job, changes in ends.items():
        if len(changes) > 1:
            yield Violation("ended twice", job, "; ".join(changes))


def _transactional(history: History) -> Iterator[Violation]:
    rows: dict[str, list[str]] = defaultdict(list)
    for effect in history.effects:
        rows[effect.job].append(effect.run)
    for written, found in rows.items():
        if len(found) > 1:
            yield Violation("effects twice", written, f"rows of the runs {', '.join(found)}")
        fact = history.jobs.get(written)
        if fact is None or fact.state == "dead":
            yield Violation("wrong end", written, f"its effect is committed, and it is {_describe(fact)}")
    for job in history.jobs.values():
        if job.job_type in _TRANSACTIONAL and job.state == "succeeded" and job.result not in rows[job.job]:
            yield Violation("effect missing", job.job, f"result of run {job.result}, rows of {rows[job.job]}")


def _overlaps(history: History, runs: dict[str, dict[str, list[Record]]]) -> Iterator[Violation]:
    for job, executions in runs.items():
        fact = history.jobs.get(job)
        for first, second in combinations(executions.values(), 2):
            if overlapping(first, second, history.freezes):
                yield Violation(
                    "two at once",
                    job,
                    f"{fact.job_type if fact else '?'}: attempt {first[0].attempt} from {first[0].at:.3f} "
                    f"({first[0].run}), attempt {second[0].attempt} from {second[0].at:.3f}",
                )
                break


def _late_starts(history: History, runs: dict[str, dict[str, list[Record]]]) -> Iterator[Violation]:
    """Handlers that started after their job's end, less the time in which their process was frozen."""
    ends: dict[str, float] = {}
    for ending in history.endings:
        if ending.new in TERMINAL:
            ends[ending.job] = min(ending.at, ends.get(ending.job, ending.at))
    for job, ended in ends.items():
        late = [
            first.at - ended
            for first, *_ in runs.get(job, {}).values()
            if first.at - ended > LATE + _frozen(first.pid, ended, first.at, history.freezes)
        ]
        if late:
            yield Violation(
                "start after end",
                job,
                f"{_describe(history.jobs.get(job))}; {len(late)} starts, up to {max(late):.1f} s after",
            )


def _frozen(pid: int, begun: float, ended: float, freezes: Sequence[Freeze]) -> float:
    """Seconds of a span in which a process could execute nothing."""
    spans = [(max(one.begun, begun), min(one.ended, ended)) for one in freezes if pid in one.pids]
    return sum(last - first for first, last in spans if first < last)


def _results(history: History, runs: dict[str, dict[str, list[Record]]]) -> Iterator[Violation]:
    for job in history.jobs.values():
        executions = runs.get(job.job, {})
        if job.state == "succeeded" and job.job_type not in WORKFLOWS:
            run = executions.get(job.result or "", [])
            if not any(record.what == "done" for record in run):
                yield Violation(
                    "unknown result", job.job, f"{_describe(job)}; no run that finished returned it"
                )
        if len({run[0].key for run in executions.values()}) > 1:
            yield Violation("key changed", job.job, "its attempts had different idempotency keys")


def _children(history: History) -> Iterator[Violation]:
    children = Counter(job.parent for job in history.jobs.values() if job.parent)
    for request in history.requests:
        parent = history.jobs.get(request.job)
        if not request.children or parent is None or parent.state != "succeeded":
            continue
        found = children[request.job]
        if found < request.children and _destroyed(history, request.job):
            continue
        if found != request.children and (history.settled or found > request.children):
            yield Violation(
                "child missing", request.job, f"expected {request.children} child jobs, got {found}"
            )


def _destroyed(history: History, job: str) -> bool:
    """True if the requests of a job's children may be among those that an operator destroyed."""
    ends = [ending.at for ending in history.endings if ending.job == job]
    return any(one.begun - LATE <= at <= one.ended + LATE for one in history.destroyed for at in ends)


def _early(history: History, runs: dict[str, dict[str, list[Record]]]) -> Iterator[Violation]:
    times = {
        request.job: request.not_before for request in history.requests if request.not_before is not None
    }
    times |= {tick.job: tick.nominal for tick in history.ticks if tick.job}
    for job, due in times.items():
        starts = [run[0].at for run in runs.get(job, {}).values()]
        if starts and min(starts) < due - EARLY:
            yield Violation("early", job, f"started {due - min(starts):.2f} s before its time")


def _ticks(history: History) -> Iterator[Violation]:
    owners = Counter(tick.job for tick in history.ticks if tick.job)
    for owned, count in owners.items():
        if count > 1:
            yield Violation("tick twice", owned, f"{count} ticks have this job")
    for job in history.jobs.values():
        if job.schedule and job.job not in owners:
            yield Violation("tick twice", job.job, f"a job of {job.schedule} that no tick accounts for")
    if not history.settled:
        return
    for schedule in history.schedules:
        nominal = {round(tick.nominal, 1) for tick in history.ticks if tick.schedule == schedule.name}
        steps = int((schedule.last - schedule.first) / schedule.every + 1e-6)
        expected = [round(schedule.first + step * schedule.every, 1) for step in range(steps + 1)]
        missing = [
            time for time in expected if not {time, round(time + 0.1, 1), round(time - 0.1, 1)} & nominal
        ]
        if missing:
            yield Violation(
                "tick missing", schedule.name, f"{len(missing)} of {len(expected)}: {missing[:5]}"
            )


def _answers(history: History) -> Iterator[Violation]:
    for request in history.requests:
        job = history.jobs.get(request.job)
        if not request.watched or job is None or job.state not in TERMINAL:
            continue
        answer = history.answers.get(request.job)
        if answer is None and history.settled:
            yield Violation("answer missing", request.job, f"{_describe(job)}; its requester waits")
        elif answer is not None and answer != job.state:
            yield Violation("answer wrong", request.job, f"{_describe(job)}; its requester received {answer}")


def _calls(history: History) -> Iterator[Violation]:
    """Calls of workflows that two jobs carry out, and effects that two jobs have had."""
    calls: dict[tuple[str, str], list[str]] = defaultdict(list)
    for job in history.jobs.values():
        parent = history.jobs.get(job.parent or "")
        if parent is not None and parent.job_type in WORKFLOWS:
            calls[parent.job, f"{job.job_type} {job.arguments}"].append(job.job)
    for (parent_id, call), jobs in calls.items():
        if len(jobs) > 1:
            yield Violation("called twice", parent_id, f"{call}: jobs {', '.join(jobs)}")
    for note, jobs in _effects_by_note(history).items():
        if len(set(jobs)) > 1:
            yield Violation("called twice", note.partition(" ")[2], f"{note}: jobs {', '.join(jobs)}")


def _orders(history: History) -> Iterator[Violation]:
    """Orders that are charged and neither shipped nor refunded, or have not received each signal once."""
    notes = _effects_by_note(history)
    for request in history.requests:
        job = history.jobs.get(request.job)
        if request.job_type != "chaos.order" or job is None or job.state not in TERMINAL:
            continue
        for effect, undo in _UNDONE_WITH.items():
            happened, undone = (f"{one} {job.job}" in notes for one in (effect, undo))
            if undone if job.state == "succeeded" else happened and not undone:
                detail = f"{_describe(job)}: {'' if undone else 'no '}{undo}"
                yield Violation("half an order", job.job, detail)
        if job.state == "succeeded":
            if f"ship {job.job}" not in notes:
                yield Violation("half an order", job.job, f"{_describe(job)}: no ship")
            if job.result != str(list(range(request.signals))):
                detail = f"{_describe(job)}: expected {request.signals}, got {job.result}"
                yield Violation("signals wrong", job.job, detail)


def _effects_by_note(history: History) -> dict[str, list[str]]:
    found: dict[str, list[str]] = defaultdict(list)
    for effect in history.effects:
        if effect.note:
            found[effect.note].append(effect.job)
    return found


def _given_up(history: History, request: Request, job: JobFact) -> bool:
    """True if a workflow was cancelled because the requests of its children were destroyed."""
    return (
        job.state == "cancelled"
        and job.job_type in WORKFLOWS
        and any(request.at <= one.ended + LATE for one in history.destroyed)
    )


def _describe(job: JobFact | None) -> str:
    return "unknown" if job is None else f"{job.job_type} {job.state} in attempt {job.attempt}"


def summary(violations: Sequence[Violation]) -> dict[str, int]:
    """How many of each kind, zeros included."""
    found = Counter(violation.kind for violation in violations)
    return {kind: found[kind] for kind in KINDS}
