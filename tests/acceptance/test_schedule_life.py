"""A backfill, with real services.

The command is run as a person runs it; scheduler and command are stopped half-way, and nothing is requested
twice. Which ticks a backfill requests, and which it refuses, is proved by
`services/scheduler/tests/decisions/test_backfill.py`; files of schedules by
`services/console/tests/command/test_schedule_files.py`.
"""

import signal
from collections import Counter
from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest
from tests.acceptance.command_line import run_command, run_json, start
from tests.acceptance.store_queries import job_types_of, look
from tests.acceptance.warren import Warren, until

from warrener_client import SyncClient
from warrener_contracts.events import SchedulePutData
from warrener_contracts.identity import tick_job_id
from warrener_contracts.schedule_rules import IntervalRule
from warrener_store.jobs.rows import JobFilter
from warrener_store.schedules.rows import ScheduleRow

HOUR = timedelta(hours=1)
MODULE = "tests.acceptance.many_handlers"


@pytest.fixture(scope="module")
def begun(running: Warren) -> Warren:
    """All services, which know the job types."""
    until(lambda: "many" in job_types_of(running), "the job types", within=120)
    return running


def schedule(warren: Warren, name: str) -> ScheduleRow | None:
    """As the store has it."""
    return look(warren, lambda store: store.schedules([name])).get(name)


def jobs_of(warren: Warren, name: str) -> list[UUID]:
    """The jobs that the ticks of a schedule have asked for, and that are there."""
    rows = look(warren, lambda store: store.list_jobs(JobFilter(limit=1000)))
    return [row.job_id for row in rows if row.source == f"warrener/schedule/{name}"]


def hourly(warren: Warren, name: str) -> datetime:
    """Put a schedule that ticks each hour, and not while the test runs; its last tick."""
    last = datetime.now(UTC).replace(microsecond=0) - timedelta(minutes=5)
    rule = IntervalRule(every=HOUR, anchor=last - 1000 * HOUR)
    with SyncClient(warren.broker_url) as client:
        client.put_schedules([SchedulePutData(name=name, rule=rule, job_type="many")])
    until(lambda: schedule(warren, name), f"{name} to be kept")
    return last


def test_point_5_a_backfill_outlives_its_command_and_its_scheduler(begun: Warren) -> None:
    last = hourly(begun, "torn")
    times = [last - n * HOUR for n in range(60)]  # 15 s, in which it is struck
    words = ("schedule", "backfill", "torn", "--from", times[-1].isoformat(), "--rate", "4/s")
    planned = run_json(begun, *words, "--dry-run")
    assert [tick["status"] for tick in planned["details"]["ticks"]] == ["requested"] * 60
    assert jobs_of(begun, "torn") == [], "a dry run requests nothing"
    command = start(begun, *words, "--reason", "the files were mended")
    until(lambda: len(jobs_of(begun, "torn")) > 5, "the backfill to begin")
    scheduler = next(one for one in begun.services if one.name == "scheduler" and one.process.poll() is None)
    scheduler.kill()
    command.send_signal(signal.SIGINT)
    _, output = command.communicate(timeout=60)
    assert command.returncode == 130, output
    assert "the backfill goes on" in output
    assert len(jobs_of(begun, "torn")) < 60
    begun.start("scheduler")
    run_command(begun, *words, "--reason", "the files were mended")
    ticks = look(begun, lambda store: store.ticks_of("torn", None, begin=times[-1], end=times[0]))
    assert [tick.request for tick in ticks] == [None] * 60, "said again, it looks on until all is asked for"
    expected = Counter({tick_job_id("torn", moment): 1 for moment in times})
    until(lambda: Counter(jobs_of(begun, "torn")) == expected, "each tick's job, once")
    again = run_json(begun, *words)
    assert Counter(tick["status"] for tick in again["details"]["ticks"]) == {"has_job": 60}
    assert {tick.reason for tick in ticks} == {"backfilled: the files were mended"}
