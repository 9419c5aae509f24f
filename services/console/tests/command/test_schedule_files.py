"""`warrener schedule apply`, `export` and `backfill`: what they show before, and what they request."""

import json
from collections import Counter
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from uuid import uuid4

import pytest
from services.console.tests.command.test_schedule import published_events
from services.console.tests.conftest import Run
from tests.store_access import on_store
from tests.store_rows import schedule_row, tick_row

from warrener.errors import CommandError
from warrener.operations.backfills import follow_backfill
from warrener.schedules.backfill import BackfillTickStatus, count_remaining, make_span, parse_rate, parse_time
from warrener_contracts import events
from warrener_contracts.schedule_rules import CronRule
from warrener_contracts.triggers import EventRule
from warrener_store import Store
from warrener_store.schedules.rows import TickRow

TEXT = """
owner = "airport"

[[schedule]]
name = "kept"
job_type = "flights.load"
cron = "@hourly"

[[schedule]]
name = "new"
job_type = "flights.load"
every = "90s"
"""
HOURLY = CronRule(expression="@hourly")
APPLY = ("schedule", "apply", "schedules.toml")


@pytest.fixture
def held(store_url: str, here: Path) -> tuple[str, str]:
    """A store with one schedule that stays and one that the file lacks; the file beside it."""
    (here / "schedules.toml").write_text(TEXT, encoding="utf-8")

    rows = [schedule_row(name, HOURLY, owner="airport") for name in ("kept", "gone")]
    on_store(store_url, lambda store: store.put_schedules(rows))
    return "--store", store_url


def test_the_plan_is_shown_and_its_exit_code_is_2_if_there_is_something_to_do(
    run: Run, held: tuple[str, str], here: Path
) -> None:
    result = run(*APPLY, *held, "--plan")
    assert result.exit_code == 2, result.output
    assert "+ new  flights.load, every 1 min 30 s" in result.stdout
    assert "1 to add, 0 to change, 0 to remove, 1 unchanged" in result.stdout
    pruned = run(*APPLY, *held, "--plan", "--prune", "--json")
    actions = {one["name"]: one["action"] for one in json.loads(pruned.stdout)["schedules"]}
    assert actions == {"gone": "remove", "kept": "unchanged", "new": "add"}
    (here / "schedules.toml").write_text(TEXT[: TEXT.rindex("[[")], encoding="utf-8")
    assert run(*APPLY, *held, "--plan").exit_code == 0


@pytest.mark.parametrize(
    ("changed", "words", "code", "expected"),
    [
        (
            ("", ""),
            ("--broker", "amqp://127.0.0.1:1"),
            2,
            "expected --yes without a terminal to confirm at, got none: 1 to add",
        ),
        (
            ("@hourly", "0 0 31 2 *"),
            ("--plan",),
            1,
            "schedules.toml:4: [[schedule]] 1 (kept): expected a cron expression",
        ),
        (('owner = "airport"', ""), ("--prune",), 1, "expected `owner"),
    ],
    ids=["no confirmation, and no broker", "a schedule that would never tick", "a prune without an owner"],
)
def test_a_file_is_refused_before_anything_is_requested(
    run: Run,
    held: tuple[str, str],
    here: Path,
    *,
    changed: tuple[str, str],
    words: tuple[str, ...],
    code: int,
    expected: str,
) -> None:
    (here / "schedules.toml").write_text(TEXT.replace(*changed), encoding="utf-8")
    result = run(*APPLY, *held, *words)
    assert (result.exit_code, expected in " ".join(result.stderr.split())) == (code, True), result.stderr


def test_changes_that_no_scheduler_picks_up_are_named_and_without_waiting_the_broker_has_them(
    run: Run, held: tuple[str, str], vhost_url: str
) -> None:
    words = (*APPLY, *held, "--broker", vhost_url, "--prune", "--yes")
    result = run(*words, "--timeout", "0.1")
    assert result.exit_code == 4, result.output
    assert "not picked up by a scheduler within 0.1 s: new, gone" in result.stderr
    put, remove = published_events(vhost_url)
    assert isinstance(put, events.SchedulePut)
    assert isinstance(remove, events.ScheduleRemoveRequested)
    assert (put.data.name, put.data.owner, remove.data.name) == ("new", "airport", "gone")
    result = run(*words, "--no-wait")
    assert result.exit_code == 0, result.output
    assert "published; a scheduler carries it out" in result.stderr
    assert len(published_events(vhost_url)) == 2
    assert json.loads(run(*words, "--no-wait", "--json").stdout)["done"] is None


def test_what_is_exported_is_that_of_an_owner_and_unchanged_when_it_is_applied(
    run: Run, held: tuple[str, str], here: Path, store_url: str
) -> None:
    text = run("schedule", "export", *held, "--owner", "airport").stdout
    (here / "schedules.toml").write_text(text, encoding="utf-8")
    result = run(*APPLY, *held, "--plan", "--prune")
    assert result.exit_code == 0, result.output
    assert "2 unchanged" in result.stdout
    assert "got 'unknown'" in run("schedule", "export", "unknown", *held).stderr
    other = schedule_row("other", HOURLY, owner="harbour")
    on_store(store_url, lambda store: store.put_schedules([other]))
    text = run("schedule", "export", *held, "--owner", "harbour").stdout
    assert 'name = "other"' in text
    assert "kept" not in text
    named = run("schedule", "export", "kept", *held, "--owner", "harbour").stdout
    assert 'name = "kept"' in named
    unknown = run("schedule", "export", *held, "--owner", "nobody")
    assert (unknown.exit_code, unknown.stdout) == (1, "")
    assert "expected an owner of schedules, got 'nobody'" in unknown.stderr


PUT_AT = datetime(2026, 3, 5, 12, tzinfo=UTC)
DAYS = [datetime(2026, 3, day, 6, tzinfo=UTC) for day in range(1, 6)]
tick = partial(tick_row, "daily")
TICK_HISTORY = [
    tick(DAYS[1], events.TickStatus.FIRED, job_id=uuid4()),
    tick(DAYS[2], events.TickStatus.SKIPPED),
    tick(DAYS[3], events.TickStatus.WAITING),
]
CAUGHT_UP = tick(DAYS[0], events.TickStatus.CAUGHT_UP, job_id=uuid4())


@pytest.fixture
def store(store_url: str) -> tuple[str, str]:
    """A store with one daily schedule and some of its ticks in the tick history, and one that waits for
    events."""

    async def fill(opened: Store) -> None:
        every_day = CronRule(expression="0 6 * * *")
        daily = schedule_row("daily", every_day, put_at=PUT_AT, next_at=PUT_AT + timedelta(days=1))
        await opened.put_schedules([daily, schedule_row("landed", EventRule(key="landed"), put_at=PUT_AT)])
        await opened.add_ticks(TICK_HISTORY)

    on_store(store_url, fill)
    return "--store", store_url


MARCH = ("schedule", "backfill", "daily", "--from", "2026-03-01", "--to", "2026-03-05T06:00+00:00")


def test_a_dry_run_shows_each_tick_and_requests_nothing(run: Run, store: tuple[str, str]) -> None:
    result = run(*MARCH, *store, "--dry-run")
    assert result.exit_code == 0, result.output
    assert "2026-03-03 06:00:00Z" in result.stdout
    assert "3 jobs would be requested; passed over: 1 with a job" in result.stderr
    found = json.loads(run(*MARCH, *store, "--dry-run", "--json").stdout)
    assert [one["status"] for one in found["details"]["ticks"]] == [
        "requested",
        "has_job",
        "requested",
        "waiting",
        "requested",
    ]
    job_ids = [one["job_id"] for one in found["details"]["ticks"]]
    assert job_ids == [None, str(TICK_HISTORY[0].job_id), None, None, None], "no id is foretold"


def test_it_requests_through_the_broker_and_a_limit_ends_the_span(
    run: Run, store: tuple[str, str], vhost_url: str
) -> None:
    words = (*store, "--broker", vhost_url, "--no-wait", "--rate", "30/m", "--reason", "mended", "-n", "2")
    result = run(*MARCH, *words)
    assert result.exit_code == 0, result.output
    assert "2 jobs requested, 30/m" in result.stderr
    (event,) = published_events(vhost_url)
    assert isinstance(event, events.ScheduleBackfillRequested)
    assert (event.data.start, event.data.end) == (DAYS[0], DAYS[2])
    assert (event.data.rate, event.data.reason) == (0.5, "mended")


def test_where_nothing_is_left_nothing_is_requested(run: Run, store: tuple[str, str]) -> None:
    """There is no broker here at all."""
    done = ("schedule", "backfill", "daily", "--from", "2026-03-02", "--to", "2026-03-02T07:00")
    result = run(*done, *store, "--broker", "amqp://127.0.0.1:1")
    assert result.exit_code == 0, result.output
    assert "0 jobs requested, 10/s; passed over: 1 with a job" in result.stderr
    late = run(
        "schedule", "backfill", "daily", "--from", "2026-03-02T07:00", "--to", "2026-03-02T08:00", *store
    )
    assert "daily has no past tick in this span" in late.stderr


def test_an_earlier_backfill_is_followed_until_it_is_published(
    store: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same command again, as the one that was interrupted advised. A clock publishes meanwhile."""
    stored_tick = replace(CAUGHT_UP, request="{}", wake_at=DAYS[0])
    span = make_span("daily", DAYS[:1], [stored_tick])
    assert (span.requested, span.awaited) == ([], DAYS[:1])

    shown: list[str] = []

    async def look(open_one: Store) -> None:
        await open_one.add_ticks([stored_tick])
        read_ticks, reads = open_one.ticks_of, Counter[str]()

        async def publish_after_a_look(
            name: str, limit: int | None, *, begin: datetime, end: datetime
        ) -> list[TickRow]:
            reads[name] += 1
            if reads[name] == 2:
                await open_one.mark_ticks([("daily", DAYS[0])], PUT_AT)
            return await read_ticks(name, limit, begin=begin, end=end)

        monkeypatch.setattr(open_one, "ticks_of", publish_after_a_look)
        await follow_backfill(open_one, span, shown.append)
        assert (reads["daily"], shown) == (2, ["jobs requested: 0 of 1"])

    on_store(store[1], look)


def test_ticks_of_an_earlier_backfill_are_counted_apart(run: Run, store: tuple[str, str]) -> None:
    stored_tick = replace(CAUGHT_UP, request="{}", wake_at=DAYS[0])
    on_store(store[1], lambda opened: opened.add_ticks([stored_tick]))
    result = run(*MARCH, *store, "--dry-run")
    assert "2 jobs would be requested; passed over: 1 requested before, 1 with a job" in result.stderr
    assert "pending" in result.stdout


@pytest.mark.parametrize(
    ("words", "code", "expected"),
    [
        (("unknown", "--from", "2026-03-01"), 1, "got 'unknown'"),
        (("daily", "--from", "yesterday"), 2, "--from: expected a time such as"),
        (("daily", "--from", "0001-01-01"), 2, "since 1970, got '0001-01-01'"),
        (("landed", "--from", "2026-03-01"), 2, "got 'landed', which waits for events"),
        (("daily", "--from", "2026-03-01", "--rate", "many"), 2, "--rate: expected at most 1000 jobs"),
    ],
)
def test_an_invalid_backfill_shows_what_was_expected(
    run: Run, store: tuple[str, str], words: tuple[str, ...], code: int, expected: str
) -> None:
    result = run("schedule", "backfill", *words, *store)
    assert result.exit_code == code
    assert expected in " ".join(result.stderr.split())


class TestSpans:
    def test_a_limit_counts_jobs_and_not_ticks(self) -> None:
        span = make_span("daily", DAYS, TICK_HISTORY, limit=2)
        assert span.requested == [DAYS[0], DAYS[2]]
        assert [one.status for one in span.ticks][-1] is BackfillTickStatus.OVER_LIMIT

    def test_what_is_still_to_come(self) -> None:
        assert count_remaining(DAYS[:3], [CAUGHT_UP]) == (2, 0)
        assert count_remaining(DAYS[:1], [CAUGHT_UP]) == (0, 0)
        assert count_remaining(DAYS[3:4], TICK_HISTORY) == (0, 0), (
            "it waits for an earlier job, and comes by itself"
        )

    @pytest.mark.parametrize(("text", "rate"), [("10/s", 10), ("30/m", 0.5), ("36/h", 0.01), ("7", 7)])
    def test_rates(self, text: str, rate: float) -> None:
        assert parse_rate(text) == pytest.approx(rate)

    @pytest.mark.parametrize("text", ["0/s", "-1", "1001/s", "nan", "10/y", ""])
    def test_what_is_no_rate(self, text: str) -> None:
        with pytest.raises(CommandError):
            parse_rate(text)

    def test_times_without_an_offset_are_utc(self) -> None:
        assert parse_time("2026-03-01T06:00", "--from") == DAYS[0]
        assert parse_time("2026-03-01T07:00+01:00", "--from") == DAYS[0]
