"""Actions of the console's pages of jobs and dead letters, carried out by real services."""

import re
from collections.abc import Callable, Iterator
from contextlib import AsyncExitStack
from typing import Any, TypeVar
from uuid import uuid4

import httpx
import pytest
from tests.acceptance.test_redrive import MODULE
from tests.acceptance.warren import Warren, until

from warrener.context import ResolvedEndpoints
from warrener.web.access.guard import OpenGuard
from warrener.web.app import create_app
from warrener.web.console import Console, open_console
from warrener.web.settings import ConsoleSettings
from warrener.web.site import installed_site
from warrener_client.sync import LoopThread

T = TypeVar("T")
WAITS_FOR_SERVICES = (
    "warrener.web.pages.schedule_forms.REPLY_TIMEOUT",
    "warrener.web.action.REPLY_TIMEOUT",
)
"""How long an action waits for the answer of a service, before it tells people to look later."""


class ConsoleBrowser:
    """A browser on a console of its own, used from outside of its event loop. It waits for the services as
    long as a busy machine takes."""

    def __init__(self, warren: Warren) -> None:
        self._endpoints = ResolvedEndpoints(
            warren.broker_url, warren.store_url, warren.ledger_url, from_up=False
        )
        self._opened = AsyncExitStack()
        self._patience = pytest.MonkeyPatch()
        for wait in WAITS_FOR_SERVICES:
            self._patience.setattr(wait, 60.0)
        self._loop = LoopThread("console")
        self._loop.start()
        self.console: Console
        self._client: httpx.AsyncClient
        self._loop.run(self._open())

    async def _open(self) -> None:
        self.console = await self._opened.enter_async_context(
            open_console(self._endpoints, ConsoleSettings())
        )
        app = create_app(self.console, installed_site(), OpenGuard())
        client = httpx.AsyncClient(
            transport=httpx.ASGITransport(app), base_url="http://127.0.0.1:8765", timeout=60
        )
        self._client = await self._opened.enter_async_context(client)

    def close(self) -> None:
        """Close the console."""
        self._loop.run(self._opened.aclose())
        self._loop.stop()
        self._patience.undo()

    def read(self, path: str) -> Any:
        """The document of the API at this path."""
        answer = self._loop.run(self._client.get(f"/api/v1{path}"))
        assert answer.status_code == 200, answer.text
        return answer.json()

    def page(self, path: str) -> str:
        """The text of a page."""
        answer = self._loop.run(self._client.get(path))
        assert answer.status_code == 200, answer.text
        return answer.text

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
        headers = {"Referer": f"http://127.0.0.1:8765{on}", "Origin": "http://127.0.0.1:8765"}
        answer = self._loop.run(
            self._client.post(path, data={"csrf_token": token[1], **fields}, headers=headers)
        )
        assert answer.status_code == 303, answer.text
        return answer.headers["location"]


@pytest.fixture(scope="module")
def browser(shared_warren: Warren) -> Iterator[ConsoleBrowser]:
    """A browser on a console beside a scheduler, a supervisor and an agent."""
    shared_warren.start_all(MODULE)
    opened = ConsoleBrowser(shared_warren)
    yield opened
    opened.close()


def until_read(browser: ConsoleBrowser, path: str, fact: Callable[[Any], bool], what: str) -> Any:
    """Wait until the document at this path is as expected, and return it."""

    def found() -> Any:
        document = browser.read(path)
        return document if fact(document) else None

    return until(found, what)


def until_waiting(browser: ConsoleBrowser, job_id: str) -> None:
    """Until the store has a job that waits for its time."""

    def stored() -> bool:
        return any(job["job_id"] == job_id for job in browser.read("/jobs?state=waiting")["jobs"])

    until(stored, "the job to wait")


def request_later(browser: ConsoleBrowser, number: int) -> str:
    """A job that waits for an hour; its id, once the store has it."""
    body = {"job_type": "flights.load", "arguments": {"number": number}, "delay": "1h"}
    job_id: str = browser.call("/jobs", body)["details"]["job_id"]
    until_waiting(browser, job_id)
    return job_id


def state_of(document: Any) -> str:
    return str(document["state"])


def test_a_job_is_requested_by_a_form_and_explained_while_it_waits(
    browser: ConsoleBrowser, monkeypatch: pytest.MonkeyPatch
) -> None:
    form = "/jobs/new?type=flights.load"
    until(lambda: 'name="argument.number"' in browser.page(form), "the agent to announce its types")
    where = browser.submit(
        "/jobs", {"job_type": "flights.load", "argument.number": "7", "delay": "1h"}, on=form
    )
    until_waiting(browser, where.rpartition("/")[2])
    job = browser.read(where)
    assert (job["arguments"], job["state"]) == ({"number": 7}, "waiting")
    assert job["explanation"]["until"] is not None
    assert "What happens now" in browser.page(where)
    # What is refused later than half a second after its request has been answered as confirmed by then.
    monkeypatch.setattr("warrener.web.pages.job_request._REJECTION_TIMEOUT", 60.0)
    refused = browser.call("/jobs", {"job_type": "no.such.type"}, refused=True)
    assert "unknown_job_type" in refused["sentence"]


def test_a_waiting_job_is_cancelled_once(browser: ConsoleBrowser) -> None:
    job_id = request_later(browser, 1)
    body = {"ids": job_id, "reason": "wrong file", "tree": "true"}
    where = browser.submit("/jobs/cancel", body, on=f"/jobs/{job_id}")
    assert where == f"/jobs/{job_id}"
    document = until_read(
        browser, f"/jobs/{job_id}", lambda found: state_of(found) == "cancelled", "the job to be cancelled"
    )
    assert document["cancel_reason"] == "wrong file"
    again = browser.call("/jobs/redrive", {"ids": [job_id]}, refused=True)
    assert again["sentence"].startswith("expected a dead job, got one that is cancelled")


def test_services_refuse_commands_about_unknown_things_and_the_api_shows_their_answers(
    browser: ConsoleBrowser,
) -> None:
    unknown = uuid4()
    refusals = {
        "/jobs/redrive": "expected a dead job, got one that is unknown",
        f"/redrives/{unknown}/stop": f"expected the id of a redrive, got {unknown}",
        "/dead-letters/redrive": "expected unresolved dead letters, got none that meets the conditions",
        "/incidents/nothing/close": "expected the fingerprint of an open incident, got 'nothing'",
        "/breakers/job:nothing/open": "expected the name of a breaker, got 'job:nothing'",
        "/schedules/nothing/pause": "expected the name of a schedule, got 'nothing'",
    }
    for path, words in refusals.items():
        bodies: dict[str, dict[str, Any]] = {
            "/dead-letters/redrive": {"job_type": "no.type"},
            "/jobs/redrive": {"ids": [str(unknown)]},
        }
        body = bodies.get(path, {})
        assert browser.call(path, body, refused=True)["sentence"].startswith(words), path
    waits = browser.call("/jobs/cancel", {"ids": [str(unknown)]})
    assert waits["sentence"].endswith("the one that comes later is cancelled")


def test_jobs_are_cancelled_by_ticks_and_by_filters(browser: ConsoleBrowser) -> None:
    first, second, third = (request_later(browser, number) for number in (101, 102, 103))
    ticked = browser.call("/jobs/cancel", {"ids": [first, second]})
    assert ticked["sentence"].startswith("cancelled 2 of 2 jobs")
    matching = browser.call("/jobs/cancel", {"query": "type=flights.load&argument=number%3D103"})
    assert matching["details"]["cancelled"] == 1
    for job_id in (first, second, third):
        until_read(browser, f"/jobs/{job_id}", lambda found: state_of(found) == "cancelled", "its cancel")
    late = browser.call("/jobs/cancel", {"ids": [first, second]})
    assert late["details"]["cancelled"] + len(late["details"]["refused"]) == 2


def bury(browser: ConsoleBrowser, numbers: range) -> str:
    """Jobs that die of one cause; its fingerprint."""
    before = {cause["fingerprint"]: cause["dead_letters"] for cause in browser.read("/causes")["causes"]}
    for number in numbers:
        browser.call("/jobs", {"job_type": "flights.load", "arguments": {"number": number}})
    wanted = sum(before.values()) + len(numbers)
    found = until_read(
        browser,
        "/causes",
        lambda found: sum(cause["dead_letters"] for cause in found["causes"]) == wanted,
        "their dead letters",
    )
    return str(found["causes"][0]["fingerprint"])


def until_over(browser: ConsoleBrowser, answer: dict[str, Any]) -> Any:
    """Wait for the end of the redrive that an action has begun."""
    return until_read(
        browser,
        f"/redrives/{answer['details']['redrive_id']}",
        lambda found: found["finished_at"] is not None,
        "the end of the redrive",
    )


def test_a_cause_is_redriven_safely_and_the_rest_is_dropped(
    browser: ConsoleBrowser, shared_warren: Warren
) -> None:
    cause = bury(browser, range(1000, 1006))
    here = f"/dead-letters/{cause}"
    where = browser.submit(
        "/dead-letters/redrive",
        {"fingerprint": cause, "dry_run": "true", "canary": "2", "rate": "100", "edits": "", "policy": ""},
        on=here,
    )
    dry = until_read(browser, where, lambda found: found["finished_at"] is not None, "the end of the dry run")
    assert (dry["kind"], dry["counts"]) == ("dry_run", {"claimed": 6})

    stopped = until_over(
        browser,
        browser.call(
            "/dead-letters/redrive",
            {"fingerprint": cause, "canary": 2, "rate": 100, "reason": "perhaps"},
        ),
    )
    assert stopped["state"] == "stopped"
    page = browser.page(f"/redrives/{stopped['redrive_id']}")
    assert "It stopped: the same failure is back" in page
    assert "Resume…" in page

    (shared_warren.folder / "mended").touch()
    resumed = browser.call(f"/redrives/{stopped['redrive_id']}/resume", {"reason": "mended"})
    assert resumed["sentence"].startswith("resumed redrive")
    done = until_read(
        browser,
        f"/redrives/{stopped['redrive_id']}",
        lambda found: found["state"] == "done",
        "the redrive to be done",
    )
    assert done["counts"]["succeeded"] == 6
    assert done["over"] == done["total"]
    refused = browser.call(f"/redrives/{stopped['redrive_id']}/stop", {}, refused=True)
    assert refused["sentence"].endswith("expected a redrive that is under way, got one that is done")

    redriven = browser.read(f"/dead-letters?fingerprint={cause}&state=succeeded")["dead_letters"][0]
    old, new = browser.page(f"/jobs/{redriven['job_id']}"), browser.page(f"/jobs/{redriven['redriven_as']}")
    assert f'href="/jobs/{redriven["redriven_as"]}"' in old
    assert f'href="/jobs/{redriven["job_id"]}"' in new


def test_one_dead_job_is_redriven_with_other_arguments_and_another_dropped(
    browser: ConsoleBrowser, shared_warren: Warren
) -> None:
    (shared_warren.folder / "mended").unlink(missing_ok=True)
    cause = bury(browser, range(2000, 2003))
    (shared_warren.folder / "mended").touch()
    died = browser.read(f"/dead-letters?fingerprint={cause}")["dead_letters"]
    one, two = died[0]["job_id"], died[1]["job_id"]
    until_over(
        browser, browser.call("/jobs/redrive", {"ids": [one], "edits": {"number": 2999}, "reason": "mended"})
    )
    document = browser.read(f"/jobs/{one}")
    assert document["redriven_as"]["state"] == "succeeded"
    assert browser.read(f"/jobs/{document['redriven_as']['job_id']}")["arguments"] == {"number": 2999}
    assert document["redrive"]["reason"] == "mended"

    until_over(browser, browser.call("/jobs/redrive", {"ids": [two]}))
    dropped = until_over(
        browser, browser.call("/dead-letters/drop", {"fingerprint": cause, "reason": "the files are gone"})
    )
    assert (dropped["kind"], dropped["counts"]) == ("drop", {"dropped": 1})
    assert "the files are gone" in browser.page(f"/dead-letters/{cause}?state=dropped")
    assert "No dead letter of this cause is open" in browser.page(f"/dead-letters/{cause}")
