"""`warrener schedule`: commands go through the broker, queries to the store."""

import asyncio
import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from uuid import uuid4

import aiormq
import pytest
from services.console.tests.conftest import stand_in
from typer.testing import Result

from warrener_client.testing import StandIn
from warrener_contracts.codec import DecodedEvent, decode
from warrener_contracts.events import SchedulePut, SchedulePutData, TickStatus
from warrener_contracts.policy import PolicyOverrides
from warrener_contracts.schedule_rules import CronRule, ScheduleChoices
from warrener_contracts.schedule_words import MisfirePolicy
from warrener_contracts.topology import SCHEDULER_COMMANDS
from warrener_store import open_store
from warrener_store.schedules.rows import ScheduleRow, TickRow

Run = Callable[..., Result]
PUT_AT = datetime.now(UTC) - timedelta(hours=1)


@pytest.fixture
def stored_schedule(store_url: str) -> str:
    """The name of a schedule with two rows in its tick history."""

    async def fill() -> None:
        store = open_store(store_url)
        await store.start()
        definition = SchedulePutData(
            name="nightly",
            rule=CronRule(expression="30 2 * * *"),
            timezone="Europe/Berlin",
            job_type="flights.load",
        )
        await store.put_schedules(
            [
                ScheduleRow(
                    definition=definition, put_at=PUT_AT, zone_version="x", next_at=PUT_AT, wake_at=PUT_AT
                )
            ]
        )
        fired = TickRow(
            schedule="nightly",
            nominal_at=PUT_AT,
            status=TickStatus.FIRED,
            due_at=PUT_AT,
            decided_at=PUT_AT,
            job_id=uuid4(),
        )
        skipped = TickRow(
            schedule="nightly",
            nominal_at=PUT_AT + timedelta(minutes=1),
            status=TickStatus.SKIPPED,
            due_at=PUT_AT,
            decided_at=PUT_AT,
            reason="the schedule is paused",
        )
        await store.add_ticks([fired, skipped])
        await store.close()

    asyncio.run(fill())
    return "nightly"


def published_events(url: str) -> list[object]:
    """The events that wait in the requests queue."""

    async def fetch() -> list[object]:
        connection = await aiormq.connect(url)
        try:
            channel = await connection.channel()
            found: list[object] = []
            while (message := await channel.basic_get(SCHEDULER_COMMANDS.name, no_ack=True)).body:
                kind = message.header.properties.content_type
                found += [one.event for one in decode(message.body, kind) if isinstance(one, DecodedEvent)]
            return found
        finally:
            await connection.close()

    return asyncio.run(fetch())


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
    (here / "rule.toml").write_text(RULE_FILE, encoding="utf-8")
    result = run(
        *("schedule", "put", "nightly", "flights.load", "path={{ tick.local_at | %Y-%m-%d }}.csv"),
        *("--cron", "@daily", "--rule", "rule.toml", "--misfire", "all", "--queue", "fast"),
        *("--broker", vhost_url, "--no-wait"),
    )
    assert result.exit_code == 0, result.output
    (event,) = published_events(vhost_url)
    assert isinstance(event, SchedulePut)
    assert event.data.arguments == {"path": "{{ tick.local_at | %Y-%m-%d }}.csv"}
    assert (event.data.timezone, event.data.queue) == ("Europe/Berlin", "fast")
    assert event.data.policy == PolicyOverrides(max_attempts=3)
    assert event.data.choices == ScheduleChoices(
        misfire=MisfirePolicy.ALL,
        pause_after_failures=3,
        expect_success_within=timedelta(hours=26),
        overdue_after=timedelta(minutes=5),
    )


@pytest.mark.parametrize("verb", ["pause", "resume", "remove", "trigger"])
def test_a_command_names_the_schedule(run: Run, vhost_url: str, verb: str) -> None:
    result = run("schedule", verb, "nightly", "--broker", vhost_url, "--json", "--no-wait")
    assert json.loads(result.stdout)["requested"] == verb
    (event,) = published_events(vhost_url)
    assert getattr(event, "type", "") == f"schedule.{verb}_requested.v1"


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (
            (),
            "expected one of --cron, --every, --at, --on-event, --after-success and a rule in --rule FILE, "
            "got none of them",
        ),
        (("--cron", "@daily", "--every", "1s"), "got --cron and --every"),
        (("--cron", "61 * * * *"), "expected a cron expression of five fields"),
        (("--cron", "@daily", "--timezone", "Europe/Bermuda"), "IANA time zone database"),
        (("--every", "often"), "expected a duration"),
        (("--every", "1s", "--misfire", "window"), "expected a catch_up_window"),
        (("--on-event", "a", "--after-success", "b"), "got --on-event and --after-success"),
        (("--rule", "none.toml"), "--rule: expected a TOML file with a rule at none.toml, got: "),
        (("day={{ tick.day }}", "--every", "1s"), "expected one of tick.schedule, tick.run"),
    ],
)
def test_an_invalid_schedule_shows_what_was_expected(run: Run, words: tuple[str, ...], expected: str) -> None:
    result = run("schedule", "put", "nightly", "flights.load", *words)
    assert result.exit_code == 2
    assert expected in " ".join(result.stderr.split())


def test_list_and_show_and_preview(run: Run, stored_schedule: str, store_url: str) -> None:
    store = ("--store", store_url)
    assert "30 2 * * *" in run("schedule", "list", *store).stdout
    assert [
        row["definition"]["name"] for row in json.loads(run("schedule", "list", *store, "--json").stdout)
    ] == [stored_schedule]
    shown = run("schedule", "show", stored_schedule, *store).stdout
    assert "the schedule is paused" in shown
    assert "fired" in shown
    ticks = json.loads(run("schedule", "show", stored_schedule, *store, "--json").stdout)["ticks"]
    assert [tick["status"] for tick in ticks] == ["skipped", "fired"]


def test_preview_marks_clock_changes(run: Run, stored_schedule: str, store_url: str) -> None:
    found = json.loads(
        run("schedule", "preview", stored_schedule, "-n", "400", "--store", store_url, "--json").stdout
    )
    changes = [line["clock_change"] for line in found if "clock_change" in line]
    assert "the clock changes 02:00 → 03:00 (skipped times: after)" in changes
    assert "the clock changes 03:00 → 02:00 (repeated times: first)" in changes
    assert len([line for line in found if "wall" in line]) == 400


def test_list_marks_what_is_overdue(run: Run, stored_schedule: str, store_url: str) -> None:
    assert "overdue for" in run("schedule", "list", "--store", store_url).stdout
    assert "overdue for" in run("schedule", "show", stored_schedule, "--store", store_url).stdout


def test_an_unknown_schedule_is_named(run: Run, store_url: str) -> None:
    for verb in ("show", "preview"):
        result = run("schedule", verb, "unknown", "--store", store_url)
        assert result.exit_code == 1
        assert "got 'unknown'" in result.stderr


def put_rule(run: Run, url: str, *words: str) -> object:
    """The rule that these words publish."""
    result = run("schedule", "put", "nightly", "flights.load", *words, "--broker", url, "--no-wait")
    assert result.exit_code == 0, result.output
    (event,) = published_events(url)
    assert isinstance(event, SchedulePut)
    return event.data.rule.model_dump(mode="json", exclude_defaults=True)


def put_file(run: Run, here: Path, url: str, text: str, *words: str) -> object:
    """The rule that a file with this text publishes."""
    (here / "rule.toml").write_text(text, encoding="utf-8")
    return put_rule(run, url, "--rule", "rule.toml", *words)


def test_business_days_with_the_holidays_of_a_file(run: Run, here: Path, vhost_url: str) -> None:
    (here / "holidays.txt").write_text("2026-12-25\n2026-12-24\n", encoding="utf-8")
    text = 'rule = { kind = "business_days", at = ["09:00", "17:30"], nth = [-1] }'
    assert put_file(run, here, vhost_url, text, "--holidays", "holidays.txt") == {
        "at": ["09:00:00", "17:30:00"],
        "nth": [-1],
        "holidays": ["2026-12-24", "2026-12-25"],
    }


def test_other_rules_keep_away_from_holidays(run: Run, here: Path, vhost_url: str) -> None:
    (here / "holidays.toml").write_text("dates = [2026-12-25]\n", encoding="utf-8")
    assert put_rule(run, vhost_url, "--every", "2h", "--holidays", "holidays.toml") == {
        "rule": {"every": "PT2H"},
        "without": [{"dates": ["2026-12-25"]}],
    }
    combined = """
    [rule]
    kind = "any_of"
    rules = [{ kind = "cron", expression = "0 9 * * *" }, { kind = "cron", expression = "@daily" }]
    """
    assert put_file(run, here, vhost_url, combined, "--holidays", "holidays.toml") == {
        "rule": {"rules": [{"expression": "0 9 * * *"}, {"expression": "@daily"}]},
        "without": [{"dates": ["2026-12-25"]}],
    }


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ('cron = "@daily"', {"expression": "@daily"}),
        ('every = "2h"\noffset = "5m"', {"every": "PT2H", "offset": "PT5M"}),
        ('after = "1h"', {"after": "PT1H"}),
        (
            'rule = { kind = "any_of", rules = [{ kind = "cron", expression = "@daily" }] }',
            {"rules": [{"expression": "@daily"}]},
        ),
        (
            'rule = { kind = "business_days", at = ["09:00"], weekdays = ["SUN"], days = [15], '
            'business_day_convention = "before" }',
            {"at": ["09:00:00"], "weekdays": ["SUN"], "days": [15], "business_day_convention": "before"},
        ),
    ],
)
def test_a_file_may_have_any_rule(
    run: Run, here: Path, vhost_url: str, text: str, rule: dict[str, object]
) -> None:
    assert put_file(run, here, vhost_url, text) == rule


@pytest.mark.parametrize(
    ("text", "words", "expected"),
    [
        ('cron = "@daily"', ("--every", "1s"), "got --every and cron in --rule"),
        ('anchor = 2026-01-01T00:00:00Z\ncron = "@daily"', (), "expected anchor beside every alone"),
        ('corn = "@daily"', (), "--rule: rule.toml:1: corn: expected one of after, anchor, at, "),
        ('name = "other"\ncron = "@daily"', (), "rule.toml:1: name: expected one of"),
        ("cron = ", (), "rule.toml: expected TOML, got: "),
        ('choices = 3\ncron = "@daily"', (), "choices: "),
        ('choices = { misfires = "all" }\ncron = "@daily"', (), "choices.misfires: expected one of"),
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
    ],
)
def test_an_invalid_rule_file_shows_what_was_expected(
    run: Run, here: Path, text: str, words: tuple[str, ...], expected: str
) -> None:
    (here / "rule.toml").write_text(text, encoding="utf-8")
    result = run("schedule", "put", "nightly", "flights.load", "--rule", "rule.toml", *words)
    assert result.exit_code == 2, result.output
    assert expected in " ".join(result.stderr.split())


@pytest.mark.parametrize("verb", ["pause", "resume", "remove", "trigger"])
def test_a_command_is_done_once_a_scheduler_has_replied(
    run: Run, vhost_url: str, warren: StandIn, verb: str
) -> None:
    result = run("schedule", verb, "nightly", "--broker", vhost_url)
    assert result.exit_code == 0, result.output
    assert f"✓ {verb.removesuffix('e')}" in result.stderr
    assert "requested" not in result.stderr
    assert [command.subject for command in warren.commands] == ["nightly"]


def test_a_refused_command_shows_the_reason_and_has_an_exit_code(run: Run, vhost_url: str) -> None:
    with stand_in(vhost_url, refuse=lambda _: "expected the name of a schedule, got 'nightly'"):
        for verb in ("pause", "trigger"):
            result = run("schedule", verb, "nightly", "--broker", vhost_url)
            assert (result.exit_code, result.stdout) == (4, "")
            assert result.stderr == "✗ expected the name of a schedule, got 'nightly'\n"
        put = run("schedule", "put", "nightly", "no.type", "--every", "1h", "--broker", vhost_url)
        assert put.exit_code == 4
        assert "✓" not in put.stderr


def test_a_command_without_a_scheduler_is_stored_by_the_broker(run: Run, vhost_url: str) -> None:
    result = run("schedule", "pause", "nightly", "--broker", vhost_url, "--timeout", "0.1s")
    assert result.exit_code == 3
    assert "within 0.1 s, got no reply: the broker has stored the command" in result.stderr
    assert "warrener doctor" in result.stderr
    (event,) = published_events(vhost_url)
    assert getattr(event, "type", "") == "schedule.pause_requested.v1"
