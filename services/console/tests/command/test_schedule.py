"""`warrener schedule`: commands go through the broker, queries to the store."""

import json
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from services.console.tests.conftest import Run
from tests.broker_access import take_events
from tests.store_access import on_store
from tests.store_rows import changed, running_job, schedule_row, tick_row

from warrener_client.testing import StandIn
from warrener_contracts.events import SchedulePut, SchedulePutData, TickStatus
from warrener_contracts.policy import PolicyOverrides
from warrener_contracts.schedule_rules import CronRule, ScheduleChoices
from warrener_contracts.schedule_words import MisfirePolicy
from warrener_contracts.state_machine import JobState
from warrener_contracts.topology import SCHEDULER_COMMANDS
from warrener_store import Store

PUT_AT = datetime.now(UTC) - timedelta(hours=1)


@pytest.fixture
def stored_schedule(store_url: str) -> str:
    """The name of a schedule with two rows in its tick history."""

    async def fill(store: Store) -> None:
        at: dict[str, Any] = dict.fromkeys(("put_at", "next_at", "wake_at"), PUT_AT)
        rule = CronRule(expression="30 2 * * *")
        await store.put_schedules([schedule_row("nightly", rule, timezone="Europe/Berlin", **at)])
        fired = tick_row("nightly", PUT_AT, TickStatus.FIRED, job_id=uuid4())
        later = PUT_AT + timedelta(minutes=1)
        skipped = tick_row("nightly", later, TickStatus.SKIPPED, reason="the schedule is paused")
        await store.add_ticks([fired, skipped])

    on_store(store_url, fill)
    return "nightly"


def published_events(url: str) -> Sequence[object]:
    """The commands that wait for a scheduler."""
    return take_events(url, SCHEDULER_COMMANDS.name)


def test_put_requests_the_schedule_and_shows_its_next_ticks(run: Run, vhost_url: str) -> None:
    result = run(
        *("schedule", "put", "nightly", "flights.load", "path=a.csv", "--cron", "30 2 * * *"),
        *("--timezone", "Europe/Berlin", "--misfire", "all", "--broker", vhost_url, "--no-wait"),
    )
    assert result.exit_code == 0, result.output
    assert "its next ticks" in result.stderr
    (event,) = published_events(vhost_url)
    assert isinstance(event, SchedulePut)
    assert event.data.rule == CronRule(expression="30 2 * * *")
    assert (event.data.arguments, event.data.timezone) == ({"path": "a.csv"}, "Europe/Berlin")
    assert event.data.choices == ScheduleChoices(misfire=MisfirePolicy.ALL)


RULE_FILE = """
timezone = "Europe/Berlin"
queue = "slow"
policy = { max_attempts = 3 }

[choices]
misfire = "skip"
pause_after_failures = 3
expect_success_within = "26h"
overdue_after = "5m"
"""


def test_options_win_over_the_choices_of_a_rule_file(run: Run, here: Path, vhost_url: str) -> None:
    path = "{{ tick.local_at | %Y-%m-%d }}.csv"
    words = (f"path={path}", *["--cron", "@daily", "--misfire", "all", "--queue", "fast"])
    made = put_file(run, here, vhost_url, RULE_FILE, *words)
    assert made.arguments == {"path": path}
    assert (made.timezone, made.queue) == ("Europe/Berlin", "fast")
    assert made.policy == PolicyOverrides(max_attempts=3)
    assert made.choices == ScheduleChoices(
        misfire=MisfirePolicy.ALL,
        pause_after_failures=3,
        expect_success_within=timedelta(hours=26),
        overdue_after=timedelta(minutes=5),
    )


def test_list_and_show_and_preview(run: Run, stored_schedule: str, store_url: str) -> None:
    store = ("--store", store_url)
    assert "30 2 * * *" in run("schedule", "list", *store).stdout
    listed = json.loads(run("schedule", "list", *store, "--state", "overdue", "--json").stdout)
    assert [row["name"] for row in listed] == [stored_schedule]
    shown = run("schedule", "show", stored_schedule, *store).stdout
    assert "the schedule is paused" in shown
    assert ("fired" in shown, "overdue" in shown) == (True, True)
    ticks = json.loads(run("schedule", "show", stored_schedule, *store, "--json").stdout)["ticks"]
    assert [tick["status"] for tick in ticks] == ["skipped", "fired"]


def test_preview_marks_clock_changes_of_a_schedule_and_of_a_rule_that_is_not_stored(
    run: Run, stored_schedule: str, store_url: str
) -> None:
    rule = ("--cron", "30 2 * * *", "--timezone", "Europe/Berlin")
    for words in ((stored_schedule, "--store", store_url), (*rule, "--from", "2027-01-01")):
        found = json.loads(run("schedule", "preview", *words, "-n", "400", "--json").stdout)
        changes = [line["clock_change"] for line in found]
        assert "the clock changes 02:00 → 03:00 (skipped times: after)" in changes
        assert "the clock changes 03:00 → 02:00 (repeated times: first)" in changes
        assert changes.count("") == 400
    assert found[0]["at"] == "2027-01-01T01:30:00Z"
    both = run("schedule", "preview", stored_schedule, *rule, "--store", store_url)
    assert (both.exit_code, "got both" in both.stderr) == (2, True)


def test_an_unknown_schedule_is_named(run: Run, store_url: str) -> None:
    for verb in ("show", "preview"):
        result = run("schedule", verb, "unknown", "--store", store_url)
        assert result.exit_code == 1
        assert "got 'unknown'" in result.stderr


def put(run: Run, url: str, *words: str) -> SchedulePutData:
    """The schedule that these words publish."""
    result = run("schedule", "put", "nightly", "flights.load", *words, "--broker", url, "--no-wait")
    assert result.exit_code == 0, result.output
    (event,) = published_events(url)
    assert isinstance(event, SchedulePut)
    of_events = event.data.rule.kind in {"event", "after"}
    assert ("It has no times of its own" in " ".join(result.stderr.split())) is of_events
    return event.data


def put_file(run: Run, here: Path, url: str, text: str, *words: str) -> SchedulePutData:
    """The schedule that a file with this text publishes."""
    (here / "rule.toml").write_text(text, encoding="utf-8")
    return put(run, url, "--rule", "rule.toml", *words)


COMBINED = """
[rule]
kind = "any_of"
rules = [{ kind = "cron", expression = "0 9 * * *" }, { kind = "cron", expression = "@daily" }]
"""
HOLIDAYS = ["2026-12-24", "2026-12-25"]
WITHOUT = [{"dates": HOLIDAYS}]


@pytest.mark.parametrize(
    ("text", "words", "rule"),
    [
        ('every = "2h"\noffset = "5m"', (), {"every": "PT2H", "offset": "PT5M"}),
        ('after = "1h"', (), {"after": "PT1H"}),
        (
            'rule = { kind = "business_days", at = ["09:00", "17:30"], nth = [-1] }',
            ("--holidays", "holidays.txt"),
            {"at": ["09:00:00", "17:30:00"], "nth": [-1], "holidays": HOLIDAYS},
        ),
        (
            "",
            ("--every", "2h", "--holidays", "holidays.txt"),
            {"rule": {"every": "PT2H"}, "without": WITHOUT},
        ),
        (
            COMBINED,
            ("--holidays", "holidays.txt"),
            {"rule": {"rules": [{"expression": "0 9 * * *"}, {"expression": "@daily"}]}, "without": WITHOUT},
        ),
    ],
)
def test_a_file_may_have_any_rule_which_keeps_away_from_holidays(
    run: Run, here: Path, vhost_url: str, *, text: str, words: tuple[str, ...], rule: dict[str, object]
) -> None:
    (here / "holidays.txt").write_text("2026-12-25\n2026-12-24\n", encoding="utf-8")
    made = put_file(run, here, vhost_url, text, *words)
    assert made.rule.model_dump(mode="json", exclude_defaults=True) == rule


@pytest.mark.parametrize(
    ("text", "words", "expected"),
    [
        ("", ("--cron", "@daily", "--every", "1s"), "got --cron and --every"),
        ("", ("--every", "often"), "expected a duration"),
        ("", ("--every", "1s", "--misfire", "window"), "expected a catch_up_window"),
        ("", ("--on-event", "a", "--after-success", "b"), "got --on-event and --after-success"),
        ("", ("--rule", "none.toml"), "--rule: expected a TOML file with a rule at none.toml, got: "),
        (
            "",
            (),
            "expected one of --cron, --every, --at, --on-event, --after-success and a rule in --rule FILE, "
            "got none of them",
        ),
        ('cron = "@daily"', ("--every", "1s"), "got --every and cron in --rule"),
        ('corn = "@daily"', (), "--rule: rule.toml:1: corn: expected one of after, anchor, at, "),
        ('name = "other"\ncron = "@daily"', (), "rule.toml:1: name: expected one of"),
        ('choices = 3\ncron = "@daily"', (), "choices: "),
        (
            'rule = { kind = "business_days", at = ["9 o\'clock"] }',
            (),
            "rule.business_days.at.0: Input should be in a valid time format",
        ),
        (
            'rule = { kind = "business_days", at = ["09:00"], weekdays = ["FRIDAY"] }',
            (),
            "Input should be 'MON', 'TUE'",
        ),
        ('rule = { kind = "days", months = [1] }', (), "rule: Input tag 'days'"),
        (
            'rule = { kind = "except", rule = { kind = "interval", every = "2h" }, '
            'without = [{ kind = "cron", expression = "@daily" }] }',
            (),
            "expected except to take days alone away",
        ),
        ('cron = "@daily"', ("--holidays", "none.txt"), "expected holidays in none.txt, got No such file"),
        ('rule = { kind = "event", key = "a", max_wait = "5s" }', (), "expected a debounce with max_wait"),
        (
            'rule = { kind = "event", key = "a", exchange = "warrener.status" }',
            (),
            "expected warrener.events or an exchange",
        ),
        ('rule = { kind = "event", key = "a", within = "1h" }', (), "expected one of"),
        ('rule = { kind = "after", upstreams = ["a", "b"] }', (), "expected within, the window for several"),
        ('rule = { kind = "after", upstreams = ["a", "a"], within = "1h" }', (), "got one of them twice"),
        ('rule = { kind = "event", key = "a" }\nchoices = { jitter = "5s" }', (), "expected no jitter"),
    ],
)
def test_an_invalid_schedule_shows_what_was_expected(
    run: Run, here: Path, text: str, words: tuple[str, ...], expected: str
) -> None:
    (here / "rule.toml").write_text(text, encoding="utf-8")
    file = ("--rule", "rule.toml") if text else ()
    result = run("schedule", "put", "nightly", "flights.load", *file, *words)
    assert result.exit_code == 2, result.output
    assert expected in " ".join(result.stderr.split())


def test_a_verb_names_the_schedule_and_is_done_once_a_scheduler_has_replied(
    run: Run, vhost_url: str, warren: StandIn
) -> None:
    """A machine that reaches the broker alone may send them: there is no store."""
    for verb, done in (
        ("pause", "paused"),
        ("resume", "resumed"),
        ("trigger", "triggered"),
        ("remove", "removed"),
    ):
        result = run("schedule", verb, "nightly", "--broker", vhost_url)
        assert result.exit_code == 0, result.output
        assert f"✓ nightly is {done}" in result.stderr
        assert warren.commands[-1].type == f"schedule.{verb}_requested.v1"
    assert {command.subject for command in warren.commands} == {"nightly"}
    shown = json.loads(run("schedule", "trigger", "nightly", "--broker", vhost_url, "--json").stdout)
    assert (shown["accepted"], list(shown["details"])) == (True, ["job_id"])


def test_a_command_without_a_scheduler_is_stored_by_the_broker(run: Run, vhost_url: str) -> None:
    result = run("schedule", "pause", "nightly", "--broker", vhost_url, "--timeout", "0.1s")
    assert result.exit_code == 3
    assert "within 0.1 s, got no reply: the broker has stored the command" in result.stderr
    assert "warrener doctor" in result.stderr
    (event,) = published_events(vhost_url)
    assert getattr(event, "type", "") == "schedule.pause_requested.v1"


NOW = datetime.now(UTC)
MINUTE = timedelta(minutes=1)


def keep(store_url: str, name: str, rule: Any, timezone: str = "UTC", took: Sequence[timedelta] = ()) -> None:
    """A schedule with the jobs of its last ticks, which had these durations."""

    async def fill(store: Store) -> None:
        row = schedule_row(name, rule, put_at=NOW, timezone=timezone, next_at=NOW, wake_at=NOW)
        await store.put_schedules([row])
        for number, span in enumerate(took):
            job, at = running_job(), NOW + number * MINUTE
            await store.insert_jobs([job])
            await store.save_jobs(
                [changed(job, state=JobState.SUCCEEDED, wake_at=None, finished_at=NOW + span)]
            )
            await store.add_ticks([tick_row(name, at, TickStatus.FIRED, decided_at=NOW, job_id=job.job_id)])

    on_store(store_url, fill)


def test_lint_warns_of_schedules_for_people_and_for_scripts_and_ends_with_1_if_it_does(
    run: Run, store_url: str
) -> None:
    keep(store_url, "nightly", {"kind": "cron", "expression": "30 2 * * *"}, "Europe/Berlin")
    keep(store_url, "ping", {"kind": "interval", "every": 60}, took=[MINUTE / 2, 2 * MINUTE])
    keep(store_url, "plain", {"kind": "interval", "every": 60}, took=[MINUTE / 2])
    lint = ("schedule", "lint", "--store", store_url)
    warned = run(*lint)
    text = " ".join(warned.stdout.split())
    assert "nightly skipped-hour: it ticks at a time that the clock skips" in text
    assert "1 of its last 2 jobs took longer than the 60 s" in text
    assert "plain" not in text
    document = run(*lint, "nightly", "--json")
    found = json.loads(document.stdout)
    kinds = [("nightly", "repeated-hour"), ("nightly", "skipped-hour")]
    assert [(one["schedule"], one["kind"]) for one in found] == kinds
    assert found[1]["dates"][0]["becomes"].endswith("03:30:00 CEST")
    assert (warned.exit_code, document.exit_code) == (1, 1)
    plain, empty, unknown = run(*lint, "plain"), run(*lint, "plain", "--json"), run(*lint, "unknown")
    assert (plain.exit_code, "nothing to warn of in 1 schedule" in plain.stderr) == (0, True)
    assert (empty.exit_code, json.loads(empty.stdout)) == (0, [])
    assert (unknown.exit_code, "got 'unknown'" in unknown.stderr) == (2, True)
