"""The report of a run: JSON, a section in Markdown, and lines for the terminal. Pure."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from tools.chaos.checker import summary
from tools.chaos.effects import Record
from tools.chaos.history import TERMINAL, History
from tools.chaos.recovery import KindSummary, recoveries, summaries
from tools.chaos.run import Outcome
from tools.chaos.system import REPLICAS

BEGIN = "<!-- made by make chaos: from here -->"
END = "<!-- made by make chaos: to here -->"
_SHOWN = 20
_EXPLAINED = 200


def as_json(outcome: Outcome) -> dict[str, Any]:
    """The whole report."""
    history, options = outcome.history, outcome.options
    found = recoveries(history, outcome.faults)
    return {
        "seed": options.seed,
        "commit": outcome.commit,
        "date": outcome.date,
        "cores": outcome.cores,
        "form": "short" if options.short else "long",
        "interrupted": outcome.interrupted,
        "seconds": round(outcome.ended - outcome.began, 1),
        "totals": totals(outcome),
        "violations": summary(outcome.violations),
        "found": _found(outcome),
        "kinds": [asdict(kind) for kind in summaries(found)],
        "faults": [
            asdict(one.fault)
            | {
                "begun": round(one.fault.begun - outcome.began, 2),
                "ended": round(one.fault.ended - outcome.began, 2),
                "rate_recovery": one.rate,
                "last_job_recovery": one.last_job,
                "touched": one.touched,
            }
            for one in found
        ],
        "notes": [[round(at - outcome.began, 2), what, detail] for at, what, detail in outcome.notes],
        "counts": outcome.counts,
    }


def totals(outcome: Outcome) -> dict[str, int]:
    """The numbers of a run."""
    history = outcome.history
    states = [job.state for job in history.jobs.values()]
    starts = [record for record in history.records if record.what == "start"]
    return {
        "requests confirmed": len(history.requests),
        "jobs": len(history.jobs),
        **{f"jobs {state}": states.count(state) for state in sorted(TERMINAL)},
        "jobs not over": sum(state not in TERMINAL for state in states),
        "handler starts": len(starts),
        "transactional effects": len(history.effects),
        "ticks": len(history.ticks),
        "answers received": len(history.answers),
        "faults": len(outcome.faults),
        "kinds of faults": len({fault.kind for fault in outcome.faults}),
        "services that ended by themselves": sum(what == "ended by itself" for _, what, _ in outcome.notes),
    }


def as_markdown(outcome: Outcome, picture: str | None, remark: str = "") -> str:
    """The part of docs/explanation/reliability.md that a run writes."""
    data = as_json(outcome)
    lines = [
        BEGIN,
        "",
        f"Commit `{data['commit']}`, {data['date']}, {data['cores']} cores for services, servers and load; "
        f"{_replicas()}; seed {data['seed']}, {data['seconds'] / 60:.0f} minutes."
        + (f" {remark}" if remark else ""),
        "",
        "| | |",
        "|---|--:|",
        *(f"| {name} | {count:,} |" for name, count in data["totals"].items()),
        "",
        "| violation | found |",
        "|---|--:|",
        *(f"| {name} | {count} |" for name, count in data["violations"].items()),
        "",
        "Recovery in seconds, from the end of a fault: *rate*, until jobs end at half of the rate before it; "
        "*last job*, until the last plain job that was requested before has ended.",
        "",
        "| fault | times | jobs in flight | rate p50 | rate max | last job p50 | last job max |",
        "|---|--:|--:|--:|--:|--:|--:|",
        *map(_row, summaries(recoveries(outcome.history, outcome.faults))),
        "",
        *([f"![Jobs that ended in each second, and the faults]({picture})", ""] if picture else []),
        END,
    ]
    return "\n".join(lines)


def on_terminal(outcome: Outcome) -> str:
    """What the run found."""
    lines = [f"{count:8,}  {name}" for name, count in totals(outcome).items()]
    lines += [f"          {what}: {count}" for what, count in outcome.counts.get("parked", {}).items()]
    found = summary(outcome.violations)
    lines += ["", *(f"{count:8}  {name}" for name, count in found.items()), ""]
    lines += [f"  {one.kind}: {one.job}: {one.detail}" for one in outcome.violations[:_SHOWN]]
    if len(outcome.violations) > _SHOWN:
        lines.append(f"  and {len(outcome.violations) - _SHOWN} more, in the report")
    return "\n".join(lines)


def with_section(page: str, section: str) -> str:
    """The page with its generated part replaced."""
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    if not rest or END not in rest:
        raise ValueError(f"expected {BEGIN!r} and {END!r} in the page, got a page without; put them back")
    return before + section + after


def _found(outcome: Outcome) -> list[dict[str, Any]]:
    """The violations, the first of them with their evidence."""
    first = outcome.violations[:_EXPLAINED]
    records: dict[str, list[Record]] = {violation.job: [] for violation in first}
    for record in sorted(outcome.history.records, key=lambda one: one.at):
        if record.job in records:
            records[record.job].append(record)
    explained = [asdict(one) | _evidence(outcome, one.job, records[one.job]) for one in first]
    return [*explained, *(asdict(one) for one in outcome.violations[_EXPLAINED:])]


def _evidence(outcome: Outcome, job: str, records: Sequence[Record]) -> dict[str, Any]:
    """What is known of a job, and the faults of its time."""
    history, began = outcome.history, outcome.began
    sent_request = next((request for request in history.requests if request.job == job), None)
    ends = [(round(one.at - began, 3), one.old, one.new) for one in history.endings if one.job == job]
    times = [one.at for one in records] + ([sent_request.at] if sent_request else [])
    first, last = (min(times), max(times)) if times else (began, began)
    return {
        "requested": None if sent_request is None else round(sent_request.at - began, 3),
        "row": asdict(history.jobs[job]) if job in history.jobs else None,
        "endings": ends,
        "runs": [
            (round(one.at - began, 3), one.what, one.attempt, one.run)
            for one in records
            if one.what != "work"
        ],
        "faults": [
            f"{fault.begun - began:.1f}-{fault.ended - began:.1f} {fault.kind} {fault.detail}"
            for fault in outcome.faults
            if fault.begun < last + 5 and fault.ended > first - 5
        ],
    }


def throughput(history: History, began: float, ended: float) -> Sequence[int]:
    """How many jobs ended in each second of the run."""
    seconds = [0] * (int(ended - began) + 1)
    for ending in history.endings:
        if ending.new in TERMINAL and began <= ending.at < ended:
            seconds[int(ending.at - began)] += 1
    return seconds


def _row(kind: KindSummary) -> str:
    cells = (kind.rate_p50, kind.rate_max, kind.last_job_p50, kind.last_job_max)
    figures = " | ".join("-" if cell is None else f"{cell:.1f}" for cell in cells)
    return f"| {kind.kind} | {kind.faults} | {kind.in_flight} | {figures} |"


def _replicas() -> str:
    return ", ".join(f"{count} {role}s" for role, count in REPLICAS.items())
