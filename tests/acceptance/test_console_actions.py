"""Actions of the console, carried out by real services.

The command carries out the same actions of incidents, breakers, dead letters and parked messages in
`test_escalation.py`, `test_redrive.py`, `test_parked.py` and `services/console/tests/command`; a browser
acts on each page in `tests/console`.
"""

import json
import re
from collections.abc import Callable, Iterator
from contextlib import AsyncExitStack
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import parse_qs, urlsplit
from uuid import uuid4

import httpx
import pytest
from services.console.tests.web.conftest import browser_on, open_console
from tests.acceptance.test_redrive import MODULE
from tests.acceptance.warren import Warren, until

from warrener_client.sync import LoopThread

ADDRESS = "http://127.0.0.1:8765"
WAIT_FOR_SERVICES = "warrener.web.actions.REPLY_TIMEOUT"
"""Seconds that an action waits for the answer of a service: here as long as a busy machine takes."""


class ConsoleBrowser:
    """A browser on a console of its own, used from outside of its event loop."""

    def __init__(self, warren: Warren) -> None:
        self._warren = warren
        self._opened = AsyncExitStack()
        self._loop = LoopThread("console")
        self._loop.start()
        self._client = self._loop.run(self._open())

    async def _open(self) -> httpx.AsyncClient:
        opened = open_console(self._warren.store_url, self._warren.broker_url)
        console = await self._opened.enter_async_context(opened)
        return await self._opened.enter_async_context(browser_on(console))

    def close(self) -> None:
        """Close the console."""
        self._loop.run(self._opened.aclose())
        self._loop.stop()

    def page(self, path: str) -> str:
        """The text of a page."""
        answer = self._loop.run(self._client.get(path))
        assert answer.status_code == 200, answer.text
        return answer.text

    def read(self, path: str) -> Any:
        """The document of the API at this path."""
        return json.loads(self.page(f"/api/v1{path}"))

    def until_read(self, path: str, fact: Callable[[Any], bool], what: str) -> Any:
        """Wait until the document at this path is as expected, and return it."""
        return until(lambda: found if fact(found := self.read(path)) else None, what)

    def call(self, path: str, body: dict[str, Any], *, refused: bool = False) -> dict[str, Any]:
        """Perform an action by the API; return its answer."""
        answer = self._loop.run(self._client.post(f"/api/v1{path}", json=body))
        assert answer.status_code == (409 if refused else 200), answer.text
        document: dict[str, Any] = answer.json()
        return document

    def submit(self, path: str, fields: dict[str, Any], *, on: str) -> str:
        """Submit a form of the page `on`, as a browser without scripts; return where it leads."""
        token = re.search(r'name="csrf_token" value="([^"]*)"', self.page(on))
        assert token is not None
        headers = {"Referer": f"{ADDRESS}{on}", "Origin": ADDRESS}
        sent = self._client.post(path, data={"csrf_token": token[1], **fields}, headers=headers)
        answer = self._loop.run(sent)
        assert answer.status_code == 303, answer.text
        return answer.headers["location"]


@pytest.fixture(scope="module")
def browser(shared_warren: Warren) -> Iterator[ConsoleBrowser]:
    """A browser on a console beside a scheduler, a supervisor and an agent."""
    shared_warren.start_all(MODULE)
    with pytest.MonkeyPatch.context() as patience:
        patience.setattr(WAIT_FOR_SERVICES, 60.0)
        opened = ConsoleBrowser(shared_warren)
        form = "/jobs/new?type=flights.load"
        until(lambda: 'name="argument.number"' in opened.page(form), "the agent to announce its types")
        yield opened
        opened.close()


def until_jobs(browser: ConsoleBrowser, filters: str, job_id: str) -> None:
    """Until the list of jobs with these filters has the job."""
    browser.until_read(
        f"/jobs?{filters}", lambda found: job_id in [job["job_id"] for job in found["jobs"]], filters
    )


def request_later(browser: ConsoleBrowser, number: int) -> str:
    """A job that waits for an hour; its id, once the store has it."""
    body = {"job_type": "flights.load", "arguments": {"number": number}, "delay": "1h"}
    job_id: str = browser.call("/jobs", body)["details"]["job_id"]
    until_jobs(browser, "state=waiting", job_id)
    return job_id


def test_a_job_is_requested_by_a_form_and_explained_while_it_waits(
    browser: ConsoleBrowser, monkeypatch: pytest.MonkeyPatch
) -> None:
    fields = {"job_type": "flights.load", "argument.number": "7", "delay": "1h"}
    where = browser.submit("/jobs", fields, on="/jobs/new?type=flights.load")
    until_jobs(browser, "state=waiting", where.rpartition("/")[2])
    job = browser.read(where)
    assert (job["arguments"], job["state"]) == ({"number": 7}, "waiting")
    assert job["explanation"]["until"] is not None
    assert "What happens now" in browser.page(where)
    # What is refused later than half a second after its request has been answered as confirmed by then.
    monkeypatch.setattr("warrener.web.pages.job_request._REJECTION_TIMEOUT", 60.0)
    refused = browser.call("/jobs", {"job_type": "no.such.type"}, refused=True)
    assert "unknown_job_type" in refused["sentence"]


def test_jobs_are_cancelled_by_a_form_by_ticks_and_by_filters(browser: ConsoleBrowser) -> None:
    first, second, third, fourth = (request_later(browser, number) for number in (101, 102, 103, 104))
    body = {"ids": first, "reason": "wrong file", "tree": "true"}
    assert browser.submit("/jobs/cancel", body, on=f"/jobs/{first}") == f"/jobs/{first}"
    ticked = browser.call("/jobs/cancel", {"ids": [second, third]})
    assert ticked["sentence"].startswith("cancelled 2 of 2 jobs")
    matching = browser.call("/jobs/cancel", {"query": "type=flights.load&argument=number%3D104"})
    assert matching["details"]["cancelled"] == 1
    for job_id in (first, second, third, fourth):
        browser.until_read(f"/jobs/{job_id}", lambda found: found["state"] == "cancelled", "its cancel")
    assert browser.read(f"/jobs/{first}")["cancel_reason"] == "wrong file"
    fifth = request_later(browser, 105)
    failing = {"job_type": "flights.load", "arguments": {"number": 106}}
    dead = browser.call("/jobs", failing)["details"]["job_id"]
    until_jobs(browser, "state=dead", dead)
    partly = browser.call("/jobs/cancel", {"ids": [dead, fifth]})  # which is an action that was accepted
    assert partly["sentence"].startswith(
        "cancelled 1 of 2 jobs; 1 refused: expected a job that has not ended"
    )
    assert [*partly["details"]["refused"]] == [dead]
    again = browser.call("/jobs/redrive", {"ids": [first]}, refused=True)
    assert again["sentence"].startswith("expected a dead job, got one that is cancelled")


def test_services_refuse_commands_about_unknown_things_and_the_api_shows_their_answers(
    browser: ConsoleBrowser,
) -> None:
    unknown = str(uuid4())
    refusals: dict[str, tuple[dict[str, Any], str]] = {
        "/jobs/redrive": ({"ids": [unknown]}, "expected a dead job, got one that is unknown"),
        f"/redrives/{unknown}/stop": ({}, f"expected the id of a redrive, got {unknown}"),
        "/dead-letters/redrive": (
            {"job_type": "no.type"},
            "expected unresolved dead letters, got none that meets the conditions",
        ),
        "/incidents/nothing/close": ({}, "expected the fingerprint of an open incident, got 'nothing'"),
        "/breakers/job:typo/open": ({}, "expected the name of a breaker, got 'job:typo'; there are job:"),
        "/schedules/nothing/pause": ({}, "expected the name of a schedule, got 'nothing'"),
    }
    for path, (body, words) in refusals.items():
        assert browser.call(path, body, refused=True)["sentence"].startswith(words), path
    waits = browser.call("/jobs/cancel", {"ids": [unknown]})
    assert waits["sentence"].endswith("the one that comes later is cancelled")


def test_a_schedule_is_put_paused_triggered_backfilled_and_removed(
    browser: ConsoleBrowser, shared_warren: Warren
) -> None:
    (shared_warren.folder / "mended").touch()
    # It ticks once an hour, and half an hour from now: not while this test runs.
    rule = f"{(datetime.now(UTC).minute + 30) % 60} * * * *"
    form = {"name": "hourly", "job_type": "flights.load", "kind": "cron", "rule": rule, "timezone": "UTC"}
    where = browser.submit("/schedules", {**form, "arguments": '{"number": "many"}'}, on="/new-schedule")
    assert urlsplit(where).path == "/new-schedule"
    assert parse_qs(urlsplit(where).query)["rule"] == [rule], "the form keeps what was written"
    here = "/schedules/hourly"
    assert browser.submit("/schedules", {**form, "arguments": '{"number": 7}'}, on="/new-schedule") == here
    assert browser.read(here)["definition"]["arguments"] == {"number": 7}

    assert "paused" in browser.call(f"{here}/pause", {"reason": "the files are late"})["sentence"]
    assert "the files are late" in browser.page(here)
    browser.call(f"{here}/resume", {})
    assert browser.read(here)["state"] == "active"
    job_id = browser.call(f"{here}/trigger", {})["details"]["job_id"]
    until_jobs(browser, "state=succeeded&schedule=hourly", job_id)
    assert len(browser.read("/jobs?schedule=hourly")["jobs"]) == 1

    begin = (datetime.now(UTC) - timedelta(hours=5)).replace(microsecond=0).isoformat()
    wanted = browser.call(f"{here}/backfill", {"begin": begin, "dry_run": True})["details"]["jobs"]
    assert wanted >= 4
    done = browser.call(f"{here}/backfill", {"begin": begin, "rate": "100/s", "reason": "the files came"})
    assert done["details"]["jobs"] == wanted
    again = browser.call(f"{here}/backfill", {"begin": begin, "end": begin})
    assert (again["sentence"], again["details"]["jobs"]) == ("hourly has no past tick in this span", 0)

    assert browser.submit(f"{here}/remove", {}, on=here) == "/schedules"
    assert browser.read("/schedules")["schedules"] == []
    assert "hourly" in browser.call(f"{here}/pause", {}, refused=True)["sentence"]


def test_queues_have_the_counts_of_the_broker(browser: ConsoleBrowser) -> None:
    found = browser.until_read(
        "/queues", lambda found: any(one["consumers"] for one in found["queues"]), "the broker's counts"
    )
    assert found["broker_trouble"] is None
    assert all(level["messages"] is not None for level in found["delays"])
    assert "What happens now" in browser.page(f"/queues/{found['queues'][0]['name']}")
