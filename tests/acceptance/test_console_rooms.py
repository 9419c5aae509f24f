"""Actions of the console's pages of schedules, incidents, parked messages and breakers, carried out by real
services."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from tests.acceptance.command_line import call_command
from tests.acceptance.store_queries import look
from tests.acceptance.test_console_actions import ConsoleBrowser, bury, until_read
from tests.acceptance.test_redrive import MODULE
from tests.acceptance.warren import Warren, until
from tests.store_rows import parked_message

Form = dict[str, str]


@pytest.fixture(scope="module")
def form() -> Form:
    """A schedule that ticks once an hour, and half an hour from now: not while these tests run."""
    return {
        "name": "hourly",
        "job_type": "flights.load",
        "kind": "cron",
        "rule": f"{(datetime.now(UTC).minute + 30) % 60} * * * *",
        "timezone": "Europe/Berlin",
        "arguments": '{"number": 7}',
    }


@pytest.fixture(scope="module")
def browser(shared_warren: Warren) -> Iterator[ConsoleBrowser]:
    """A browser on a console beside a scheduler, a supervisor and an agent."""
    shared_warren.start_all(MODULE)
    (shared_warren.folder / "mended").touch()
    opened = ConsoleBrowser(shared_warren)
    until(lambda: "flights.load" in opened.page("/new-schedule"), "the agent to announce its types")
    yield opened
    opened.close()


def test_a_schedule_is_put_by_its_form_and_refused_by_the_scheduler_with_its_answer(
    browser: ConsoleBrowser, form: Form
) -> None:
    where = browser.submit("/schedules", {**form, "arguments": '{"number": "many"}'}, on="/new-schedule")
    assert urlsplit(where).path == "/new-schedule"
    assert parse_qs(urlsplit(where).query)["rule"] == [form["rule"]], "the form keeps what was written"
    refused = browser.call(
        "/schedules", {"definition": {"name": "hourly", "job_type": "no.such"}}, refused=True
    )
    assert "rule" in refused["sentence"]

    assert browser.submit("/schedules", form, on="/new-schedule") == "/schedules/hourly"
    found = browser.read("/schedules/hourly")
    assert found["definition"]["arguments"] == {"number": 7}
    assert form["rule"] in json.dumps(found["definition"]["rule"])


def test_a_schedule_is_paused_resumed_and_triggered(browser: ConsoleBrowser, form: Form) -> None:
    browser.call("/schedules", form)
    paused = browser.call("/schedules/hourly/pause", {"reason": "the files are late"})
    assert "paused" in paused["sentence"]
    assert "the files are late" in browser.page("/schedules/hourly")
    browser.call("/schedules/hourly/resume", {})
    assert browser.read("/schedules/hourly")["state"] == "active"
    job_id = browser.call("/schedules/hourly/trigger", {})["details"]["job_id"]
    found = until_read(
        browser,
        "/jobs?state=succeeded&schedule=hourly",
        lambda document: job_id in [job["job_id"] for job in document["jobs"]],
        "the job to succeed",
    )
    assert len(found["jobs"]) == 1
    assert browser.read(f"/jobs/{job_id}")["arguments"] == {"number": 7}


def test_a_backfill_is_looked_at_requested_and_followed(browser: ConsoleBrowser, form: Form) -> None:
    browser.call("/schedules", form)
    here = "/schedules/hourly/backfill"
    begin = (datetime.now(UTC) - timedelta(hours=5)).replace(microsecond=0).isoformat()
    dry = browser.call(here, {"begin": begin, "dry_run": True})
    wanted = dry["details"]["jobs"]
    assert wanted >= 4
    done = browser.call(here, {"begin": begin, "rate": "100/s", "reason": "the files came"})
    assert done["details"]["jobs"] == wanted

    def has_jobs() -> bool:
        ticks = browser.read("/schedules/hourly/ticks")["ticks"]
        return sum(tick["job_id"] is not None for tick in ticks) >= int(wanted)

    until(has_jobs, "the jobs of the backfill")
    again = browser.call(here, {"begin": begin, "end": begin})
    assert (again["sentence"], again["details"]["jobs"]) == ("hourly has no past tick in this span", 0)


def test_a_schedule_is_removed_and_its_history_stays(browser: ConsoleBrowser, form: Form) -> None:
    browser.call("/schedules", {**form, "name": "gone"})
    assert browser.submit("/schedules/gone/remove", {}, on="/schedules/gone") == "/schedules"
    assert "gone" not in [one["name"] for one in browser.read("/schedules")["schedules"]]
    late = browser.call("/schedules/gone/pause", {}, refused=True)
    assert "gone" in late["sentence"]


def test_a_breaker_is_opened_and_closed(browser: ConsoleBrowser) -> None:
    browser.call("/breakers/job:flights.load/open", {"open_for": "10m", "reason": "being upgraded"})

    def state() -> str:
        return next(
            str(one["state"])
            for one in browser.read("/breakers")["breakers"]
            if one["name"] == "job:flights.load"
        )

    until(lambda: state() == "open", "the breaker to open")
    assert "being upgraded" in browser.page("/breakers")
    browser.call("/breakers/job:flights.load/close", {})
    until(lambda: state() == "closed", "the breaker to close")


def test_the_supervisor_refuses_a_breaker_that_no_job_type_has_and_each_face_shows_its_answer(
    browser: ConsoleBrowser, shared_warren: Warren
) -> None:
    refused = browser.call("/breakers/job:typo/open", {}, refused=True)
    assert refused["sentence"].startswith("expected the name of a breaker, got 'job:typo'; there are job:")
    called = call_command(shared_warren, "breaker", "open", "typo")
    assert called.returncode == 4
    assert refused["sentence"] in " ".join(called.stderr.split())


def test_an_incident_is_acknowledged_snoozed_and_closed(
    browser: ConsoleBrowser, shared_warren: Warren
) -> None:
    (shared_warren.folder / "mended").unlink()
    bury(browser, range(1000, 1002))
    (shared_warren.folder / "mended").touch()

    def both_deaths() -> Any:
        incidents = browser.read("/incidents")["incidents"]
        return next((one for one in incidents if (one["kind"], one["times"]) == ("job.dead", 2)), None)

    incident = until(both_deaths, "the incident, to which no death is added any more")
    here = f"/incidents/{incident['fingerprint']}"
    assert browser.submit(f"{here}/acknowledge", {}, on=here) == here
    assert browser.read(here)["acknowledged_by"] == "local"
    browser.call(f"{here}/snooze", {"snooze_for": "2h"})
    assert browser.read(here)["state"] == "snoozed"
    browser.call(f"{here}/close", {"reason": "mended"})
    closed = browser.read(here)
    assert (closed["state"], "mended" in closed["close_reason"]) == ("closed", True)
    again = browser.call(f"{here}/acknowledge", {}, refused=True)
    assert again["sentence"]


def test_parked_messages_are_requeued_and_dropped(browser: ConsoleBrowser, shared_warren: Warren) -> None:
    message = parked_message(
        parked_id="p1",
        parked_at=datetime.now(UTC) - timedelta(hours=1),
        exchange="warrener.requests",
        routing_key="flights.load",
    )

    look(shared_warren, lambda store: store.park([message]))
    requeued = browser.call("/parked/requeue", {"ids": ["p1"]})
    assert requeued["sentence"].startswith("1 ")

    def parked_ids() -> list[str]:
        return [one["parked_id"] for one in browser.read("/parked?reason=not_json")["messages"]]

    until(lambda: len(parked_ids()) == 1, "the message, which nobody can use, to be parked again")
    [left] = parked_ids()
    assert browser.submit("/parked/drop", {"ids": left}, on=f"/parked/{left}") == "/parked"
    assert parked_ids() == []


def test_queues_have_the_counts_of_the_broker(browser: ConsoleBrowser) -> None:
    found = until_read(
        browser,
        "/queues",
        lambda document: any(one["consumers"] for one in document["queues"]),
        "the broker's counts",
    )
    assert found["broker_trouble"] is None
    assert all(level["messages"] is not None for level in found["delays"])
    assert "What happens now" in browser.page(f"/queues/{found['queues'][0]['name']}")
