"""`warrener schedule apply` and `export`: the plan, the confirmation, and the published events."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from services.console.tests.command.test_schedule import published_events
from tests.store_access import on_store
from tests.store_rows import schedule_row
from typer.testing import Result

from warrener_contracts.events import SchedulePut, ScheduleRemoveRequested
from warrener_contracts.schedule_rules import CronRule

Run = Callable[..., Result]
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


def test_nothing_is_requested_without_confirmation(run: Run, held: tuple[str, str]) -> None:
    """There is no broker here at all."""
    result = run(*APPLY, *held, "--broker", "amqp://127.0.0.1:1")
    assert result.exit_code == 2
    assert "expected --yes without a terminal to confirm at, got none: 1 to add" in " ".join(
        result.stderr.split()
    )


def test_what_no_scheduler_takes_up_is_named(run: Run, held: tuple[str, str], vhost_url: str) -> None:
    result = run(*APPLY, *held, "--broker", vhost_url, "--prune", "--yes", "--timeout", "0.1")
    assert result.exit_code == 4, result.output
    assert "not picked up by a scheduler within 0.1 s: new, gone" in result.stderr
    put, remove = published_events(vhost_url)
    assert isinstance(put, SchedulePut)
    assert isinstance(remove, ScheduleRemoveRequested)
    assert (put.data.name, put.data.owner, remove.data.name) == ("new", "airport", "gone")


def test_without_waiting_the_broker_keeps_the_changes(
    run: Run, held: tuple[str, str], vhost_url: str
) -> None:
    words = (*APPLY, *held, "--broker", vhost_url, "--prune", "--yes", "--no-wait")
    result = run(*words)
    assert result.exit_code == 0, result.output
    assert "published; a scheduler carries it out" in result.stderr
    assert len(published_events(vhost_url)) == 2
    assert json.loads(run(*words, "--json").stdout)["done"] is None


def test_what_would_never_tick_is_named_with_its_line(run: Run, held: tuple[str, str], here: Path) -> None:
    (here / "schedules.toml").write_text(TEXT.replace("@hourly", "0 0 31 2 *"), encoding="utf-8")
    result = run(*APPLY, *held, "--plan")
    assert result.exit_code == 1
    assert "schedules.toml:4: [[schedule]] 1 (kept): expected a cron expression" in " ".join(
        result.stderr.split()
    )


def test_pruning_needs_an_owner(run: Run, held: tuple[str, str], here: Path) -> None:
    (here / "schedules.toml").write_text(TEXT.replace('owner = "airport"', ""), encoding="utf-8")
    result = run(*APPLY, *held, "--prune")
    assert result.exit_code == 1
    assert "expected `owner" in result.stderr


def test_what_is_exported_is_unchanged_when_it_is_applied(
    run: Run, held: tuple[str, str], here: Path
) -> None:
    text = run("schedule", "export", *held, "--owner", "airport").stdout
    (here / "schedules.toml").write_text(text, encoding="utf-8")
    result = run(*APPLY, *held, "--plan", "--prune")
    assert result.exit_code == 0, result.output
    assert "2 unchanged" in result.stdout
    assert "got 'unknown'" in run("schedule", "export", "unknown", *held).stderr


def test_an_owner_selects_what_is_exported(run: Run, held: tuple[str, str], store_url: str) -> None:
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
