"""`warrener schedule lint`: for people and for scripts, from what the store knows."""

import json
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from tests.store_access import on_store
from tests.store_rows import changed, running_job, schedule_row, tick_row
from typer.testing import Result

from warrener_contracts.events import TickStatus
from warrener_contracts.state_machine import JobState
from warrener_store import Store

Run = Callable[..., Result]
NOW = datetime.now(UTC)
MINUTE = timedelta(minutes=1)


def keep(store_url: str, name: str, rule: Any, timezone: str = "UTC", took: Sequence[timedelta] = ()) -> None:
    """A schedule with the jobs of its last ticks, which had these durations."""

    async def fill(store: Store) -> None:
        row = schedule_row(name, rule, put_at=NOW, timezone=timezone, next_at=NOW, wake_at=NOW)
        await store.put_schedules([row])
        jobs = [running_job() for _ in took]
        ticks = [
            tick_row(name, NOW + number * MINUTE, TickStatus.FIRED, decided_at=NOW, job_id=job.job_id)
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

    on_store(store_url, fill)


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
