"""`python -m warrener_supervisor.escalation FILE`: check the policies of a file, and play them offline.

The command `warrener escalation test` runs this module.
"""

import argparse
import asyncio
import json
import sys
from collections.abc import Sequence
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from warrener_contracts.fields import parse_duration
from warrener_contracts.json_safety import is_object
from warrener_supervisor.escalation.policy_file import PolicyFileError, read
from warrener_supervisor.escalation.simulate import (
    EscalationSimulation,
    Scenario,
    TimelineEntry,
    merge_repeats,
)

_USAGE = 2


def main(words: Sequence[str] | None = None) -> int:
    """Print the timeline; return the exit code."""
    options = vars(_parser().parse_args(words))
    path, as_json = options.pop("file"), options.pop("as_json")
    try:
        file = read(path)
    except PolicyFileError as error:
        mistake = {"key": error.key, "problem": error.problem, "remedy": error.remedy}
        if as_json:
            print(json.dumps({"mistake": mistake}, ensure_ascii=False))
        else:
            print(error, file=sys.stderr)
        return _USAGE
    scenario = Scenario(**options)
    timeline = asyncio.run(EscalationSimulation(file, scenario).play())
    if as_json:
        entries = [{**asdict(each), "at": each.at.isoformat()} for each in timeline]
        print(json.dumps(entries, ensure_ascii=False))
    else:
        print("\n".join(_for_people(each, often, scenario.at) for each, often in merge_repeats(timeline)))
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="warrener escalation test", description="Play a policy offline: nothing is sent or requested."
    )
    parser.add_argument("file", metavar="FILE", type=Path, help="the escalation file")
    parser.add_argument("--kind", default="job.dead", help="kind of the incident (default job.dead)")
    parser.add_argument("--job-type", metavar="TYPE", default="example.job", help="job type of the dead job")
    error, now = "builtins.RuntimeError", datetime.now(UTC)
    text = f"class of the error (default {error})"
    parser.add_argument("--error", metavar="CLASS", default=error, help=text)
    text = "arguments of the dead job (default none)"
    parser.add_argument("--arguments", metavar="JSON", type=_object, default={}, help=text)
    text = "time of the first death (default now)"
    parser.add_argument("--at", metavar="TIME", type=_moment, default=now, help=text)
    parser.add_argument("--times", metavar="N", type=int, default=1, help="number of dead jobs (default 1)")
    text = "time between two deaths (default 0)"
    parser.add_argument("--every", metavar="SPAN", type=_span, default=timedelta(0), help=text)
    text = "acknowledge after this time (default never)"
    parser.add_argument("--ack-after", dest="acknowledged_after", metavar="SPAN", type=_span, help=text)
    parser.add_argument("--json", dest="as_json", action="store_true", help="one JSON document")
    return parser


def _span(text: str) -> timedelta:
    try:
        return parse_duration(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def _moment(text: str) -> datetime:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"expected a time like 2026-11-21T23:30Z, got {text!r}") from None
    return (moment if moment.tzinfo else moment.astimezone()).astimezone(UTC)


def _object(text: str) -> dict[str, Any]:
    try:
        found: object = json.loads(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"expected a JSON object, got {text!r}: {error}") from None
    if not is_object(found):
        raise argparse.ArgumentTypeError(f"expected a JSON object, got {text!r}")
    return found


def _for_people(entry: TimelineEntry, often: int, since: datetime) -> str:
    times = f" ({often} times)" if often > 1 else ""
    gone = timedelta(seconds=round((entry.at - since).total_seconds()))
    line = f"{entry.at:%a %Y-%m-%d %H:%M:%S}Z  +{gone!s:<16} {entry.what:<13} {entry.about}{times}"
    if entry.detail in (None, {}, ""):
        return line
    shown = entry.detail if isinstance(entry.detail, str) else json.dumps(entry.detail)
    return "\n".join([line, *(f"{'':44}| {part}" for part in shown.splitlines())])


if __name__ == "__main__":
    sys.exit(main())
