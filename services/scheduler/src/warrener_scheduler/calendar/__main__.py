"""`python -m warrener_scheduler.calendar`: answers one query about schedules, JSON on stdin and stdout.

    {"schedule": {…as in schedule.put…}, "count": 10, "put_at": "2026-01-01T00:00:00Z", "after": "…"}
    {"check": [{…as in schedule.put…}, …]}
    {"between": {"schedule": {…}, "put_at": "…", "begin": "…", "end": "…", "most": 1000}}

The first returns the next ticks, those later than `after` if it is given, and the clock changes between them,
or writes a sentence and exits with code 2 if the schedule would be refused. The second returns the reason for
each refusal, null without one; the third the nominal times from `begin` to `end`, both included, at most
`most` of them.

With `--lines` the process stays: each line of stdin is a query, each line of stdout `{"answer": …}`, or
`{"error": "…"}` if the schedule would be refused. It ends with its stdin.
"""

import atexit
import gc
import json
import sys
from datetime import UTC, datetime, timedelta
from itertools import islice, takewhile
from typing import Any

from warrener_contracts.events import SchedulePutData
from warrener_scheduler.calendar.ticks import check, nominal_times, preview
from warrener_scheduler.template_variables import check_arguments


def main() -> int:
    """Read the query and write its answer; the exit code."""
    if sys.argv[1:] == ["--lines"]:
        for line in sys.stdin:
            print(json.dumps(_answer_line(json.loads(line))), flush=True)
        return 0
    query, now = json.load(sys.stdin), datetime.now(UTC)
    try:
        answer = _answer(query, now)
    except ValueError as error:
        if "schedule" not in query:
            raise
        print(error, file=sys.stderr)
        return 2
    json.dump(answer, sys.stdout)
    return 0


def _answer_line(query: dict[str, Any]) -> dict[str, Any]:
    try:
        return {"answer": _answer(query, datetime.now(UTC))}
    except ValueError as error:
        return {"error": str(error)}


def _answer(query: dict[str, Any], now: datetime) -> list[Any]:
    if "check" in query:
        return [_problem(SchedulePutData.model_validate(one), now) for one in query["check"]]
    if "between" in query:
        return _between(**query["between"])
    return _preview(query, now)


def _preview(query: dict[str, Any], now: datetime) -> list[dict[str, str]]:
    put_at = datetime.fromisoformat(query["put_at"]) if query.get("put_at") else now
    spec = SchedulePutData.model_validate(query["schedule"])
    check(spec, put_at)
    if put_at is now:  # it is about to be put
        check_arguments(spec)
    after = datetime.fromisoformat(query["after"]) if query.get("after") else now
    return preview(spec, put_at, after, query["count"])


def _problem(spec: SchedulePutData, now: datetime) -> str | None:
    try:
        check(spec, now)
        check_arguments(spec)
    except ValueError as error:
        return str(error)
    return None


def _between(*, schedule: dict[str, Any], put_at: str, begin: str, end: str, most: int) -> list[str]:
    spec, last = SchedulePutData.model_validate(schedule), datetime.fromisoformat(end)
    after = datetime.fromisoformat(begin) - timedelta.resolution
    times = nominal_times(spec, datetime.fromisoformat(put_at), after)
    return [moment.isoformat() for moment in islice(takewhile(lambda moment: moment <= last, times), most)]


if __name__ == "__main__":
    atexit.register(gc.freeze)  # the last collection would go through all that was imported
    sys.exit(main())
