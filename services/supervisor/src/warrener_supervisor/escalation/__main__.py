"""`python -m warrener_supervisor.escalation FILE`: what comes of the ladders in a file, played offline.

The command `warrener escalation test` hands over to this."""

import argparse
import asyncio
import json
import sys
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from warrener_contracts.durations import parse_duration
from warrener_contracts.json_safety import is_object
from warrener_runtime.settings import SettingsError
from warrener_supervisor.escalation.loading import read
from warrener_supervisor.escalation.rehearsal import Happening, Rehearsal, Scene, merged

_USAGE = 2


def main(words: Sequence[str] | None = None) -> int:
    """Print the timeline; the exit code."""
    asked = _parser().parse_args(words)
    try:
        file = read(asked.file)
    except SettingsError as error:
        print(error, file=sys.stderr)
        return _USAGE
    scene = Scene(
        at=asked.at,
        kind=asked.kind,
        job_type=asked.job_type,
        error=asked.error,
        arguments=asked.arguments,
        times=asked.times,
        every=asked.every,
        acknowledged_after=asked.ack_after,
    )
    happenings = asyncio.run(Rehearsal(file, scene).play())
    if asked.as_json:
        print(json.dumps([_for_machines(each) for each in happenings], ensure_ascii=False))
    else:
        print("\n".join(_for_people(each, often, asked.at) for each, often in merged(happenings)))
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="warrener escalation test",
        description="Play a ladder offline: nothing is sent, nothing is asked for.",
    )
    parser.add_argument("file", metavar="FILE", type=Path, help="the escalation file")
    parser.add_argument("--kind", default="job.dead", help="what is raised (job.dead)")
    parser.add_argument("--job-type", metavar="TYPE", default="example.job", help="the job type that dies")
    parser.add_argument("--error", metavar="CLASS", default="builtins.RuntimeError", help="what it dies of")
    parser.add_argument("--arguments", metavar="JSON", type=_object, default={}, help="its arguments")
    parser.add_argument("--at", metavar="TIME", type=_moment, default=datetime.now(UTC), help="when (now)")
    parser.add_argument("--times", metavar="N", type=int, default=1, help="how many die (1)")
    parser.add_argument("--every", metavar="SPAN", type=_span, default=timedelta(0), help="between them (0)")
    parser.add_argument("--ack-after", metavar="SPAN", type=_span, default=None, help="you acknowledge then")
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


def _for_machines(happening: Happening) -> dict[str, Any]:
    return {
        "at": happening.at.isoformat(),
        "what": happening.what,
        "about": happening.about,
        "detail": happening.detail,
    }


def _for_people(happening: Happening, often: int, since: datetime) -> str:
    times = f" ({often} times)" if often > 1 else ""
    gone = timedelta(seconds=round((happening.at - since).total_seconds()))
    line = (
        f"{happening.at:%a %Y-%m-%d %H:%M:%S}Z  +{gone!s:<16} {happening.what:<13} {happening.about}{times}"
    )
    if happening.detail in (None, {}, ""):
        return line
    told = happening.detail if isinstance(happening.detail, str) else json.dumps(happening.detail)
    return "\n".join([line, *(f"{'':44}| {part}" for part in told.splitlines())])


if __name__ == "__main__":
    sys.exit(main())
