"""`python -m warrener_scheduler.calendar.queries`: what the command asks about many schedules, or many
ticks, at once.

    {"check": [{…as in schedule.put…}, …]}
    {"between": {"schedule": {…}, "put_at": "…", "begin": "…", "end": "…", "most": 1000}}

The first answers with why each would be refused, null where it would not; the second with the nominal times
from `begin` to `end`, both included, at most so many. JSON both ways.
"""

import json
import sys
from datetime import UTC, datetime
from itertools import islice, takewhile
from typing import Any

from warrener_contracts.events import SchedulePutData
from warrener_scheduler.calendar.instant import INSTANT
from warrener_scheduler.calendar.ticks import check, nominal_times
from warrener_scheduler.schedules.template_variables import check_arguments


def main() -> int:
    """Read, answer, end."""
    query = json.load(sys.stdin)
    if "check" in query:
        now = datetime.now(UTC)
        answer: list[Any] = [_problem(SchedulePutData.model_validate(one), now) for one in query["check"]]
    else:
        answer = _between(**query["between"])
    json.dump(answer, sys.stdout)
    return 0


def _problem(spec: SchedulePutData, now: datetime) -> str | None:
    try:
        check(spec, now)
        check_arguments(spec)
    except ValueError as error:
        return str(error)
    return None


def _between(*, schedule: dict[str, Any], put_at: str, begin: str, end: str, most: int) -> list[str]:
    spec, last = SchedulePutData.model_validate(schedule), datetime.fromisoformat(end)
    first = datetime.fromisoformat(begin) - INSTANT
    times = nominal_times(spec, datetime.fromisoformat(put_at), first)
    return [moment.isoformat() for moment in islice(takewhile(lambda moment: moment <= last, times), most)]


if __name__ == "__main__":
    sys.exit(main())
