"""`python -m warrener_scheduler.calendar.lint`: what to warn of in schedules that are handed in as JSON.

    [{"schedule": {…as in schedule.put…}, "put_at": "2026-01-01T00:00:00Z", "durations": [1.5, 2.25]}, …]

Only the schedule must be said; durations are seconds. Answers with an array of warnings for each, in order.
"""

import json
import sys
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from typing import Any

from warrener_contracts.events import SchedulePutData
from warrener_scheduler.calendar.lint_checks import lint_schedule


def main() -> int:
    """Read, answer, end."""
    now = datetime.now(UTC)
    json.dump([_warnings(question, now) for question in json.load(sys.stdin)], sys.stdout)
    return 0


def _warnings(question: dict[str, Any], now: datetime) -> list[dict[str, Any]]:
    put_at = question.get("put_at")
    found = lint_schedule(
        SchedulePutData.model_validate(question["schedule"]),
        now,
        put_at=None if put_at is None else datetime.fromisoformat(put_at),
        durations=[timedelta(seconds=seconds) for seconds in question.get("durations", ())],
    )
    return [asdict(one) for one in found]


if __name__ == "__main__":
    sys.exit(main())
