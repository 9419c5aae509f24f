"""Retention: old rows are deleted, live ones stay, and one scheduler at a time prunes."""

import json
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import pytest
from services.scheduler.tests.stage import Stage, put
from tests.conformance.test_schedules import tick
from tests.store_rows import after, agent_row, died, parked_message, queued_job, running_job, succeeded
from tests.store_rows import raised_incident as raised

from warrener_contracts.events import Answer
from warrener_contracts.schedule_rules import IntervalRule
from warrener_contracts.state_machine import JobState
from warrener_runtime.settings import SettingsError, load
from warrener_runtime.virtual_clock import VirtualClock
from warrener_scheduler.accept import insert_jobs
from warrener_scheduler.retention.pruner import ClaimLost, Pruner, TickPruner
from warrener_scheduler.settings import RetentionSettings, SchedulerSettings
from warrener_store.dead_letters.rows import DeadLetterFilter
from warrener_store.jobs.rows import JobFilter, JobRow
from warrener_store.jobs.rules import CANCEL_MARK
from warrener_store.memory import MemoryStore
from warrener_store.parked.rows import ParkedFilter
from warrener_store.workflows.rows import SignalRow, TurnRow

DAY = timedelta(days=1)


class Scene:
    def __init__(self) -> None:
        self.store = MemoryStore()
        self.clock = VirtualClock(after(60))

    def pruner(self, holder: str = "a", **settings: Any) -> Pruner:
        tick_pruner = TickPruner(self.store, self.clock, keep=DAY, newest=1)
        return Pruner(
            self.store, self.clock, RetentionSettings(**settings), holder=holder, tick_pruner=tick_pruner
        )

    async def end(self, *rows: JobRow, dead: bool = False) -> list[UUID]:
        await self.store.insert_jobs(rows)
        await self.store.save_jobs([died(row) if dead else succeeded(row) for row in rows])
        return [row.job_id for row in rows]

    async def left(self) -> set[UUID]:
        return {row.job_id for row in await self.store.list_jobs(JobFilter(limit=1000))}


@pytest.fixture
def scene(monkeypatch: pytest.MonkeyPatch) -> Scene:
    monkeypatch.setattr("warrener_scheduler.retention.pruner._PAUSE", 0.0)
    monkeypatch.setattr("warrener_scheduler.retention.pruner._LIMIT", 1)
    return Scene()


async def test_each_state_and_job_type_has_a_retention_of_its_own(scene: Scene) -> None:
    plain, retained, _ = await scene.end(
        running_job(), running_job(job_type="kept"), running_job(job_type="short")
    )
    (dead,) = await scene.end(running_job(), dead=True)
    by_type = {"kept": {"succeeded": "never"}, "short": {"succeeded": "2d"}}
    pruner = scene.pruner(scheduler_retention_by_job_type=by_type)
    for days, expected in (
        (3, {plain, retained, dead}),
        (5, {retained, dead}),
        (21, {retained, dead}),
        (2, {retained}),
    ):
        await scene.clock.advance(days * 86_400.0)
        await pruner.run_once()
        assert await scene.left() == expected
    assert await scene.store.dead_letter_store.list_dead_letters(DeadLetterFilter(states=())) == []


async def test_one_scheduler_prunes_in_an_interval_and_another_one_after_it(scene: Scene) -> None:
    first, second = scene.pruner("a"), scene.pruner("b")
    await scene.clock.advance(8 * 86_400.0)
    await first.run_once()
    (job_id,) = await scene.end(running_job())
    await second.run_once()
    assert await scene.left() == {job_id}, "the first one has pruned just now"
    await scene.clock.advance(301)
    await second.run_once()
    assert await scene.left() == set()


async def test_12_a_folder_for_what_is_deleted_is_made(scene: Scene, tmp_path: Path) -> None:
    await scene.end(running_job())
    await scene.clock.advance(100 * 86_400.0)
    await scene.pruner(scheduler_export_folder=tmp_path / "var" / "export").run_once()
    assert await scene.left() == set()
    assert [*(tmp_path / "var" / "export").iterdir()]


async def test_12_what_is_deleted_is_in_a_file_before_and_a_full_disk_deletes_nothing(
    scene: Scene, tmp_path: Path
) -> None:
    (job_id,) = await scene.end(running_job(arguments={"path": "ä.csv"}), dead=True)
    await scene.store.park([parked_message("p", body=b"\xff")])
    ticks = [tick(seconds=second, wake_at=None, request=None) for second in range(3)]
    await scene.store.add_ticks(ticks)
    await scene.store.escalations.raise_incidents([raised("f1", str(number)) for number in range(3)])
    await scene.clock.advance(100 * 86_400.0)
    pruner = scene.pruner(scheduler_export_folder=tmp_path)
    kinds = ("jobs", "occurrences", "parked", "ticks")
    files = {kind: tmp_path / f"{kind}-{scene.clock.now():%Y-%m-%d}.jsonl" for kind in kinds}
    for kind in kinds:
        files[kind].mkdir()  # so that it cannot be written
        with pytest.raises(OSError, match=kind):
            await pruner.run_once()
        files[kind].rmdir()
        if kind == "jobs":
            assert await scene.left() == {job_id}
            files[kind].write_bytes(b'{"torn')
        elif kind == "occurrences":
            assert len(await scene.store.escalations.pending("f1", 1, 10)) == 3
        elif kind == "parked":
            assert len(await scene.store.parked_summaries(ParkedFilter(), 10)) == 1
        else:
            assert len(await scene.store.ticks_of("hourly")) == 3
    await pruner.run_once()
    assert await scene.left() == set()
    assert await scene.store.ticks_of("hourly") == ticks[2:], "the newest stays"
    assert await scene.store.escalations.pending("f1", 1, 10) == []
    torn, line = files["jobs"].read_bytes().splitlines()
    assert torn == b'{"torn'
    exported = json.loads(line)
    assert (exported["job"]["job_id"], exported["job"]["arguments"]) == (str(job_id), {"path": "ä.csv"})
    assert exported["dead_letter"]["reason"] == "attempts used up"
    assert [attempt["outcome"] for attempt in exported["attempts"]] == ["failed"]
    occurrences, parked, deleted = (
        [json.loads(line) for line in files[kind].read_text().splitlines()] for kind in kinds[1:]
    )
    assert [(one["fingerprint"], one["occurrence"]) for one in occurrences] == [
        ("f1", str(number)) for number in range(3)
    ]
    assert [one["parked_id"] for one in parked] == ["p"]
    assert [one["job_id"] for one in deleted] == [str(one.job_id) for one in ticks[:2]]
    assert (deleted[0]["schedule"], deleted[0]["status"]) == ("hourly", "fired")


async def test_a_workflow_is_exported_with_its_turns_and_its_signals_go_by_age(
    scene: Scene, tmp_path: Path
) -> None:
    (job_id,) = await scene.end(running_job())
    await scene.store.keep_answers([TurnRow(job_id=job_id, attempt=1, answers=(Answer(at=after(9)),))])
    sent = SignalRow(job_id=job_id, signal_id="s1", name="packed", data=None, received_at=after(1))
    early = replace(sent, job_id=uuid4())
    await scene.store.keep_signals(
        [sent, early, replace(early, signal_id="s2", received_at=after(99 * 86_400))]
    )
    await scene.clock.advance(100 * 86_400.0)
    await scene.pruner(scheduler_export_folder=tmp_path).run_once()
    file = tmp_path / f"jobs-{scene.clock.now():%Y-%m-%d}.jsonl"
    (turn,) = json.loads(file.read_text())["turns"]
    assert turn["answers"][0]["at"].startswith("2026-11-20")
    left = await scene.store.signals_of({key: ["packed"] for key in (job_id, early.job_id)})
    assert [[one.signal_id for one in signals] for signals in left.values()] == [["s2"]]


async def test_a_scheduler_that_lost_its_claim_in_the_middle_stops(scene: Scene) -> None:
    pruner = scene.pruner()
    await scene.end(*[running_job() for _ in range(3)])
    await scene.clock.advance(8 * 86_400.0)
    assert await pruner.claim(timedelta(minutes=1))
    steps = pruner.steps()
    await anext(steps)
    await scene.clock.advance(61)  # frozen, and another one takes over
    assert await scene.store.claim_duty("pruning", "b", scene.clock.now(), scene.clock.now() + DAY)
    with pytest.raises(ClaimLost):
        await anext(steps)
    assert len(await scene.left()) == 2


async def test_a_job_type_stays_while_an_agent_serves_its_queue_or_a_schedule_names_it(stage: Stage) -> None:
    await stage.publish(put(rule=IntervalRule(every=timedelta(days=365))))
    unused = replace((await stage.store.job_types())["flights.load"], name="unused", queue="gone")
    served = replace(unused, name="served", queue="special")
    await stage.store.put_job_types([unused, served])
    agent = agent_row(queues=("special",), last_seen_at=stage.clock.now() + 30 * DAY)
    await stage.store.put_agents([agent])
    await stage.clock.leap(31 * 86_400.0)
    assert set(await stage.store.job_types()) == {"flights.load", "served"}


async def test_the_mark_of_a_cancel_that_no_request_followed_is_gone_after_a_day(scene: Scene) -> None:
    now = scene.clock.now()
    mark = queued_job(
        job_type=CANCEL_MARK, state=JobState.CANCELLED, finished_at=now, accepted_at=now, wake_at=None
    )
    cancelled = replace(mark, job_id=uuid4(), job_type="flights.load")
    await scene.store.insert_jobs([mark, cancelled])
    for hours, left in ((23, {mark.job_id, cancelled.job_id}), (2, {cancelled.job_id})):
        await scene.clock.advance(hours * 3600.0)
        await scene.pruner().run_once()
        assert await scene.left() == left


# -- the window of idempotency keys ------------------------------------------------------------------------


async def test_a_repeat_after_a_shorter_window_is_a_new_job_and_one_within_it_is_not(scene: Scene) -> None:
    hour, began = timedelta(hours=1), scene.clock.now()
    (first,) = await scene.end(running_job(idempotency_key="k"))
    live = queued_job(idempotency_key="live")
    await scene.store.insert_jobs([live])
    repeats = [queued_job(idempotency_key="k"), queued_job(idempotency_key="live")]
    found = await insert_jobs(scene.store, repeats, began - hour)
    assert [one.new for one in found] == [False, False]
    await scene.clock.advance(3700)
    again = [replace(row, job_id=uuid4(), accepted_at=scene.clock.now()) for row in (*repeats, repeats[0])]
    found = await insert_jobs(scene.store, again, scene.clock.now() - hour)
    assert [one.new for one in found] == [True, False, False], "a job that is not over keeps its key"
    assert found[2].row.job_id == again[0].job_id
    assert first in await scene.left()


async def test_a_longer_window_keeps_the_jobs_that_have_a_key(scene: Scene) -> None:
    keyed, _ = await scene.end(running_job(idempotency_key="k"), running_job())
    pruner = scene.pruner(scheduler_idempotency_window="14d")
    await scene.clock.advance(8 * 86_400.0)
    await pruner.run_once()
    assert await scene.left() == {keyed}
    await scene.clock.advance(7 * 86_400.0)
    await pruner.run_once()
    assert await scene.left() == set()


# -- settings ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("SUCCEEDED_RETENTION", "60s", "at least 1 h"),
        ("RETENTION_BY_JOB_TYPE", '{"a": {"dead": "1m"}}', "at least 1 h"),
        ("RETENTION_BY_JOB_TYPE", '{"a": {"running": "1d"}}', "one of cancelled, dead, expired, succeeded"),
        ("INCIDENT_RETENTION", "1d", "no shorter than scheduler_dead_retention"),
        ("DEAD_RETENTION", "soon", "expected a duration"),
    ],
)
def test_what_cannot_work_is_refused(
    monkeypatch: pytest.MonkeyPatch, name: str, value: str, expected: str
) -> None:
    monkeypatch.setenv(f"WARRENER_SCHEDULER_{name}", value)
    with pytest.raises(SettingsError, match=expected):
        load(SchedulerSettings)


def test_never_is_a_retention(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WARRENER_SCHEDULER_DEAD_RETENTION", "never")
    monkeypatch.setenv("WARRENER_SCHEDULER_RETENTION_BY_JOB_TYPE", '{"a": {"succeeded": "never"}}')
    settings = load(SchedulerSettings)
    assert settings.scheduler_dead_retention is None
    assert settings.scheduler_retention_by_job_type == {"a": {JobState.SUCCEEDED: None}}


async def test_5_more_than_one_portion_is_forgotten_in_portions(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("warrener_scheduler.retention.pruner._MAX_TICK_BATCHES", 10)
    await stage.publish(put(rule=IntervalRule(every=timedelta(seconds=0.1))), then=80)
    tick_pruner = TickPruner(stage.store, stage.clock, keep=timedelta(seconds=1), newest=1)
    await tick_pruner.run_once()
    left = len(await stage.tick_rows())
    assert left > 100, "the rest is left to the next look"
    for _ in range(2):
        await tick_pruner.run_once()
    remaining = await stage.tick_rows()
    assert remaining
    assert min(tick.nominal_at for tick in remaining) >= stage.clock.now() - timedelta(seconds=1)
