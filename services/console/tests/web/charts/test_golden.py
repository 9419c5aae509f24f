"""One golden drawing of each chart. WARRENER_WRITE_GOLDEN=1 writes them again: look at them in a browser."""

import math
import os
from collections import Counter
from collections.abc import Callable
from datetime import date, timedelta
from pathlib import Path
from uuid import UUID

import pytest
from services.console.tests.render.test_waterfall import DAMAGED, ended, finished, lost_since
from tests.store_rows import after, running_job

from warrener.operations.schedules import ListedTick
from warrener.render.tones import Tone
from warrener.render.waterfall import WaterfallFacts, lay_out
from warrener.web.charts.graph import draw_graph
from warrener.web.charts.over_time import DeployMark, TimeBucket, draw_throughput, draw_trend
from warrener.web.charts.picture import Picture
from warrener.web.charts.small import draw_heatmap, draw_segments, draw_sparkline
from warrener.web.charts.strip import draw_mini_strip, draw_strip
from warrener.web.charts.waterfall import WaterfallLinks, draw_waterfall
from warrener_contracts.state_machine import JobState
from warrener_store.jobs.rows import AttemptOutcome

from .test_drawings import JOB_ID, tick
from .workflow_courses import order_that_was_undone

FOLDER = Path(__file__).parent / "golden"


def waterfall_of_a_bad_day() -> Picture:
    row = finished(JobState.SUCCEEDED, 848.03, job_id=JOB_ID, attempt=3, source="flights.api")
    attempts = [
        ended(1, AttemptOutcome.FAILED, (5, 6.2, 9), f"retry at {after(12).isoformat()}", DAMAGED),
        ended(2, AttemptOutcome.LOST, (9.1, 13, 24), f"retry at {after(840).isoformat()}", lost_since(16)),
        ended(3, AttemptOutcome.SUCCEEDED, (840.5, 842, 848), "done"),
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
    return draw_waterfall(lay_out(facts), WaterfallLinks(toggle_child_jobs="?children=closed"))


def runs_of_a_schedule() -> list[ListedTick]:
    bad = {11: JobState.DEAD, 12: JobState.DEAD, 5: JobState.CANCELLED, 29: JobState.RUNNING}

    def run(number: int) -> ListedTick:
        if number == 20:
            return tick(after(3600 * number), reason="missed: no scheduler ran")
        seconds = 21 if number == 29 else 50 + 15 * math.sin(number) + 40 * (number > 24)
        state = bad.get(number, JobState.SUCCEEDED)
        return tick(after(3600 * number), state, timedelta(seconds=seconds))

    return [run(number) for number in range(30)]


def trend_over_a_deploy() -> Picture:
    def bucket(number: int) -> TimeBucket:
        if 40 <= number < 46:
            return TimeBucket(start=after(900 * number))
        slow = 1.8 if number >= 60 else 1.0
        wave = math.sin(number / 9) + math.sin(number * 2.3) / 3
        return TimeBucket(
            start=after(900 * number),
            succeeded=220,
            failed=number * 7 % 60 if number >= 60 else int(number % 9 == 0),
            p50=timedelta(seconds=slow * (1.1 + 0.1 * wave)),
            p95=timedelta(seconds=slow * (2.6 + 0.4 * wave)),
        )

    deploys = [DeployMark(after(900 * 12), "2.4.0"), DeployMark(after(900 * 60), "2.4.1")]
    return draw_trend([bucket(number) for number in range(96)], title="flights.load", deploys=deploys)


def throughput_of_a_day() -> Picture:
    buckets = [
        TimeBucket(
            start=after(3600 * number),
            succeeded=int(90 + 70 * math.sin(number / 4)) if number != 7 else 0,
            failed=number % 6,
            retried=number % 4,
            cancelled=int(number == 3),
        )
        for number in range(24)
    ]
    deploys = [DeployMark(after(3600 * 5.5), "2.4.0"), DeployMark(after(3600 * 23), "2.4.1")]
    return draw_throughput(buckets, title="Jobs that ended", deploys=deploys)


def heatmap_of_a_week() -> Picture:
    days = [date(2026, 11, 20 - back) for back in range(7)]
    cells = {
        (day, hour): Counter({False: day.day * hour % 13 - (hour == day.day), True: int(hour == day.day)})
        for day in days
        for hour in range(24)
    }
    return draw_heatmap(cells, days, title="Ticks by day and hour")


CHARTS: dict[str, Callable[[], Picture]] = {
    "waterfall": waterfall_of_a_bad_day,
    "strip": lambda: draw_strip(runs_of_a_schedule(), title="flights.hourly, the last 30 ticks"),
    "mini_strip": lambda: draw_mini_strip(runs_of_a_schedule(), title="Last runs", name="mini"),
    "trend": trend_over_a_deploy,
    "throughput": throughput_of_a_day,
    "graph": lambda: draw_graph(order_that_was_undone().graph(ending=JobState.DEAD)),
    "heatmap": heatmap_of_a_week,
    "sparkline": lambda: draw_sparkline([1, 2, None, 4, None, 3, 3], title="Deaths", name="spark"),
    "segments": lambda: draw_segments(
        [("succeeded", Tone.GOOD, 9999), ("died", Tone.ERROR, 1), ("waits", Tone.SOFT, 4000)],
        title="A redrive",
        name="redrive",
    ),
}


@pytest.mark.parametrize("name", CHARTS)
def test_a_drawing_is_the_golden_one(name: str) -> None:
    path = FOLDER / f"{name}.html"
    drawn = CHARTS[name]().__html__().replace("><", ">\n<") + "\n"
    if os.environ.get("WARRENER_WRITE_GOLDEN"):
        path.parent.mkdir(exist_ok=True)
        path.write_text(drawn, encoding="utf-8")
    assert path.read_text(encoding="utf-8") == drawn, "set WARRENER_WRITE_GOLDEN=1 to write it again"
