"""`python -m warrener_scheduler.calendar`: the next ticks of a schedule that is handed in as JSON.

    {"schedule": {…as in schedule.put…}, "count": 10, "put_at": "2026-01-01T00:00:00Z"}

Answers with a JSON array of ticks and of the clock changes between them; a sentence and exit code 2 where the
schedule would never tick.
"""

import json
import sys
from datetime import UTC, datetime

from warrener_contracts.events import SchedulePutData
from warrener_scheduler.calendar.preview import preview
from warrener_scheduler.calendar.ticks import check
from warrener_scheduler.schedules.template_variables import check_arguments


def main() -> int:
    """Read, answer, end."""
    question = json.load(sys.stdin)
    now = datetime.now(UTC)
    put_at = datetime.fromisoformat(question["put_at"]) if question.get("put_at") else now
    try:
        spec = SchedulePutData.model_validate(question["schedule"])
        check(spec, put_at)
        if put_at is now:  # it is about to be put
            check_arguments(spec)
    except ValueError as error:
        print(error, file=sys.stderr)
        return 2
    json.dump(preview(spec, put_at, now, question["count"]), sys.stdout)
    return 0


if __name__ == "__main__":
    sys.exit(main())
