"""Points 1 and 5 of scheduling, on real processes and a real broker: rules by the days of a calendar and
combined rules tick as they say, from the words of the command on; and lint warns of what the jobs did."""

import json
from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest
from tests.acceptance.command_line import run_command, run_json
from tests.acceptance.store_queries import look
from tests.acceptance.warren import Warren, until

from warrener_contracts.events import TickStatus
from warrener_store import Store
from warrener_store.schedules.rows import ScheduleRow, TickRow

MODULE = "tests.acceptance.rule_handlers"
DAY = timedelta(days=1)


def schedule_of(warren: Warren, name: str) -> tuple[ScheduleRow | None, list[TickRow], int]:
    """The schedule, its tick history, and how many of its jobs are over."""

    async def all_of_it(store: Store) -> tuple[ScheduleRow | None, list[TickRow], int]:
        rows, ticks = await store.schedules([name]), await store.ticks_of(name, 1000)
        jobs = await store.jobs_by_id([tick.job_id for tick in ticks if tick.job_id is not None])
        return rows.get(name), ticks, sum(job.finished_at is not None for job in jobs.values())

    return look(warren, all_of_it)


@pytest.fixture(scope="module")
def warren(shared_warren: Warren) -> Warren:
    """With all its services, and the job type of the schedules, which a put needs."""
    shared_warren.start_all(MODULE)
    until(lambda: "nap" in run_command(shared_warren, "job-types"), "the job type to be announced")
    return shared_warren


def test_an_interval_that_rests_on_holidays_ticks_today_and_lint_sees_that_its_jobs_overlap(
    warren: Warren,
) -> None:
    today = datetime.now(UTC).date()
    holidays = [today - DAY, *(today + n * 30 * DAY for n in range(1, 24))]
    (warren.folder / "holidays.txt").write_text("\n".join(day.isoformat() for day in holidays))
    run_command(warren, "schedule", "put", "naps", "nap", "--every", "1s", "--holidays", "holidays.txt")
    until(lambda: schedule_of(warren, "naps")[2] >= 3, "three jobs to be over", within=120)
    _, ticks, _ = schedule_of(warren, "naps")
    times = [tick.nominal_at for tick in ticks if tick.status is not TickStatus.TRIGGERED]
    assert len(set(times)) == len(times)
    assert all(tick.nominal_at.date() not in holidays for tick in ticks)
    (found,) = run_json(warren, "schedule", "lint", "naps", code=1)
    assert (found["schedule"], found["kind"]) == ("naps", "overlap")
    assert "longer than the 1 s" in found["text"]


def test_a_schedule_is_planned_for_the_business_day_that_the_file_leaves(warren: Warren) -> None:
    """Tomorrow and the six days after it are holidays by the file, each day else is a business day."""
    tomorrow = datetime.now(UTC).date() + DAY
    lines = ["BEGIN:VCALENDAR", "VERSION:2.0", "PRODID:-//Office//EN", "BEGIN:VEVENT", "UID:1"]
    lines += ["DTSTAMP:20260101T000000Z", f"DTSTART;VALUE=DATE:{tomorrow:%Y%m%d}", "DURATION:P7D"]
    lines += ["SUMMARY:The office is closed", "END:VEVENT", "END:VCALENDAR", ""]
    (warren.folder / "closed.ics").write_text("\r\n".join(lines))
    week = ["MON", "TUE", "WED", "THU", "FRI", "SAT", "SUN"]
    (warren.folder / "payroll.toml").write_text(
        f'rule = {{ kind = "business_days", at = ["00:00"], weekdays = {json.dumps(week)} }}'
    )
    words = ("--rule", "payroll.toml", "--holidays", "closed.ics")
    run_command(warren, "schedule", "put", "payroll", "nap", *words)
    until(lambda: schedule_of(warren, "payroll")[0] is not None, "the schedule", within=60)
    row, _, _ = schedule_of(warren, "payroll")
    assert row is not None
    assert row.next_at == datetime.combine(tomorrow + 7 * DAY, datetime.min.time(), UTC)
    assert "7 holidays" in run_command(warren, "schedule", "list")


def test_combined_rules_tick_once_where_their_parts_meet(warren: Warren) -> None:
    """Every second and every two seconds, as one rule: one tick and one job a second."""
    (warren.folder / "both.toml").write_text(
        """
        choices = { max_runs = 5 }
        [rule]
        kind = "any_of"
        rules = [
            { kind = "interval", every = 1 },
            { kind = "interval", every = 2 },
            { kind = "cron", expression = "* * * * * *" },
        ]
        """
    )
    run_command(warren, "schedule", "put", "both", "nap", "--rule", "both.toml")
    until(lambda: len(schedule_of(warren, "both")[1]) >= 5, "five ticks", within=60)
    _, ticks, _ = schedule_of(warren, "both")
    times = sorted(tick.nominal_at for tick in ticks)
    assert {later - earlier for earlier, later in pairwise(times)} == {timedelta(seconds=1)}
