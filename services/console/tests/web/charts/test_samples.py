"""The pictures of the documentation are drawn by the charts as they are now.

WARRENER_WRITE_SAMPLES=1 writes them again.
"""

import math
import os
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from uuid import UUID

import pytest

from warrener.render.waterfall import WaterfallFacts, lay_out
from warrener.web import charts
from warrener.web.charts.picture import Picture
from warrener.web.charts.strip import ScheduleRun, draw_strip
from warrener.web.charts.time_frame import DeployMark
from warrener.web.charts.trend import TrendBucket, draw_trend
from warrener.web.charts.waterfall import draw_waterfall
from warrener_contracts.events import ErrorInfo, ErrorKind
from warrener_contracts.state_machine import JobState
from warrener_store.jobs.rows import AttemptOutcome, AttemptRow
from warrener_store.testing import after, attempt_of, queued_job, running_job

FOLDER = Path(__file__).parents[5] / "docs" / "howto"
SHEET = (Path(charts.__file__).parent / "charts.css").read_text(encoding="utf-8")
JOB_ID = UUID("01936f2e-8a3b-7c4d-9e5f-0123456789ab")


def ended(
    attempt: int,
    outcome: AttemptOutcome,
    times: tuple[float, float, float],
    verdict: str,
    error: ErrorInfo | None = None,
    *,
    agent_id: str = "loader-7f3a",
) -> AttemptRow:
    dispatched_at, started_at, finished_at = map(after, times)
    return replace(
        attempt_of(running_job(attempt=attempt, agent_id=agent_id), outcome, error=error),
        dispatched_at=dispatched_at,
        started_at=started_at,
        finished_at=finished_at,
        verdict=verdict,
    )


def waterfall_of_a_bad_day() -> Picture:
    damaged = ErrorInfo(
        kind=ErrorKind.ERROR, type="flights.days.Damaged", message="expected 19 values, got 7"
    )
    message = f"agent loader-7f3a has not sent a heartbeat since {after(16).isoformat()}"
    lost = ErrorInfo(kind=ErrorKind.LOST, type="lost", message=message)
    row = queued_job(
        job_id=JOB_ID,
        state=JobState.SUCCEEDED,
        attempt=3,
        source="flights.api",
        wake_at=None,
        requested_at=after(-0.04),
        finished_at=after(848.03),
    )
    attempts = [
        ended(1, AttemptOutcome.FAILED, (5, 6.2, 9), f"retry at {after(12).isoformat()}", damaged),
        ended(2, AttemptOutcome.LOST, (9.1, 13, 24), f"retry at {after(840).isoformat()}", lost),
        ended(3, AttemptOutcome.SUCCEEDED, (840.5, 842, 848), "done", agent_id="loader-99c1"),
    ]
    child_job = running_job(
        job_id=UUID("01936f3b-11aa-7c4d-9e5f-0123456789ac"),
        job_type="flights.index",
        state=JobState.SUCCEEDED,
        requested_at=after(847),
        started_at=after(848.5),
        finished_at=after(851),
    )
    facts = WaterfallFacts(row=row, attempts=attempts, now=after(900), child_jobs=[child_job])
    return draw_waterfall(lay_out(facts))


def strip_of_a_schedule() -> Picture:
    bad = {11: JobState.DEAD, 12: JobState.DEAD, 5: JobState.CANCELLED, 29: JobState.RUNNING}
    shown = [
        ScheduleRun(
            nominal_at=after(3600 * number),
            state=None if number == 20 else bad.get(number, JobState.SUCCEEDED),
            duration=None
            if number == 20
            else timedelta(seconds=21 if number == 29 else 50 + 15 * math.sin(number) + 40 * (number > 24)),
            note="missed: no scheduler ran" if number == 20 else "",
        )
        for number in range(30)
    ]
    return draw_strip(shown, title="flights.hourly, the last 30 ticks")


def trend_over_a_deploy() -> Picture:
    def bucket(number: int) -> TrendBucket:
        if 40 <= number < 46:
            return TrendBucket(start=after(900 * number))
        slow = 1.8 if number >= 60 else 1.0
        wave = math.sin(number / 9) + math.sin(number * 2.3) / 3
        return TrendBucket(
            start=after(900 * number),
            succeeded=220,
            failed=number * 7 % 60 if number >= 60 else int(number % 9 == 0),
            p50=timedelta(seconds=slow * (1.1 + 0.1 * wave)),
            p95=timedelta(seconds=slow * (2.6 + 0.4 * wave)),
        )

    deploys = [DeployMark(after(900 * 12), "2.4.0"), DeployMark(after(900 * 60), "2.4.1")]
    return draw_trend([bucket(number) for number in range(96)], title="flights.load", deploys=deploys)


def samples() -> Iterator[tuple[str, Picture]]:
    yield "trace-of-a-job.svg", waterfall_of_a_bad_day()
    yield "runs-of-a-schedule.svg", strip_of_a_schedule()
    yield "trend-of-a-job-type.svg", trend_over_a_deploy()


@pytest.mark.parametrize(("name", "picture"), [*samples()])
def test_a_picture_of_the_documentation_is_of_now(name: str, picture: Picture) -> None:
    path, drawn = FOLDER / name, f"{picture.standalone(SHEET)}\n"
    if os.environ.get("WARRENER_WRITE_SAMPLES"):
        path.write_text(drawn, encoding="utf-8")
    assert path.read_text(encoding="utf-8") == drawn, "set WARRENER_WRITE_SAMPLES=1 to write it again"
