"""`warrener schedule lint`: for people and for scripts, from what the store knows."""

import asyncio
import json
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

import pytest
from typer.testing import Result

from warrener_contracts.events import SchedulePutData, TickStatus
from warrener_contracts.state_machine import JobState
from warrener_store import open_store
from warrener_store.schedules.rows import ScheduleRow, TickRow
from warrener_store.testing import changed, running_job

Run = Callable[..., Result]
NOW = datetime.now(UTC)
MINUTE = timedelta(minutes=1)


def keep(store_url: str, name: str, rule: Any, timezone: str = "UTC", took: Sequence[timedelta] = ()) -> None:
    """A schedule with the jobs of its last ticks, which had these durations."""

    async def fill() -> None:
        store = open_store(store_url)
        await store.start()
        definition = SchedulePutData.model_validate(
            {"name": name, "rule": rule, "timezone": timezone, "job_type": "flights.load"}
        )
        row = ScheduleRow(definition=definition, put_at=NOW, zone_version="x", next_at=NOW, wake_at=NOW)
        await store.put_schedules([row])
        jobs = [running_job(job_id=uuid4(), job_type="flights.load") for _ in took]
        ticks = [
            TickRow(
                schedule=name,
                nominal_at=NOW + number * MINUTE,
                status=TickStatus.FIRED,
                due_at=NOW,
                decided_at=NOW,
                job_id=job.job_id,
            )
            for number, job in enumerate(jobs)
        ]
        await store.insert_jobs(jobs)
        await store.save_jobs(
            [
                changed(job, state=JobState.SUCCEEDED, wake_at=None, finished_at=NOW + span)
                for job, span in zip(jobs, took, strict=True)
            ]
        )
        await store.add_ticks(ticks)
        await store.close()

    asyncio.run(fill())


@pytest.fixture
def schedules(store_url: str) -> str:
    """Two to warn of, and one that is plain."""
    keep(store_url, "nightly", {"kind": "cron", "expression": "30 2 * * *"}, "Europe/Berlin")
    keep(store_url, "ping", {"kind": "interval", "every": 60}, took=[MINUTE / 2, 2 * MINUTE])
    keep(store_url, "plain", {"kind": "interval", "every": 60}, took=[MINUTE / 2])
    return store_url


def test_warnings_are_shown_and_end_the_command_with_1(run: Run, schedules: str) -> None:
    result = run("schedule", "lint", "--store", schedules)
    assert result.exit_code == 1
    text = " ".join(result.stdout.split())
    assert "nightly skipped-hour: it ticks at a time that the clock skips" in text
    assert "1 of its last 2 jobs took longer than the 60 s" in text
    assert "plain" not in text


def test_scripts_read_them_as_json(run: Run, schedules: str) -> None:
    result = run("schedule", "lint", "nightly", "--store", schedules, "--json")
    assert result.exit_code == 1
    found = json.loads(result.stdout)
    assert [(one["schedule"], one["kind"]) for one in found] == [
        ("nightly", "repeated-hour"),
        ("nightly", "skipped-hour"),
    ]
    assert found[1]["dates"][0]["becomes"].endswith("03:30:00 CEST")


def test_nothing_to_warn_of_ends_with_0(run: Run, schedules: str) -> None:
    result = run("schedule", "lint", "plain", "--store", schedules)
    assert (result.exit_code, "nothing to warn of in 1 schedule" in result.stderr) == (0, True)
    result = run("schedule", "lint", "plain", "--store", schedules, "--json")
    assert (result.exit_code, json.loads(result.stdout)) == (0, [])


def test_a_name_that_is_not_known_ends_with_2(run: Run, schedules: str) -> None:
    result = run("schedule", "lint", "unknown", "--store", schedules)
    assert result.exit_code == 2
    assert "got 'unknown'" in result.stderr
