"""The list of jobs: its filters, its pages, its counts, and the form that requests a job."""

from typing import Any

import httpx
import pytest

from warrener.operations.roles import Role
from warrener.web.console import Console

from .conftest import OpenBrowser
from .stored_jobs import (
    ERROR,
    HOSTILE,
    ago,
    job_type,
    open_breaker,
    put_dead,
    put_queued,
    put_running,
    put_succeeded,
    put_waiting,
)
from .test_app import GuardOf


async def listed(browser: httpx.AsyncClient, query: str) -> list[str]:
    """The ids of the jobs that the API lists."""
    answer = await browser.get(f"/api/v1/jobs?{query}")
    assert answer.status_code == 200, answer.text
    return [job["job_id"] for job in answer.json()["jobs"]]


async def test_an_empty_list_names_the_command_that_requests_a_job(browser: httpx.AsyncClient) -> None:
    page = await browser.get("/jobs")
    assert page.status_code == 200
    assert "No job yet." in page.text
    assert "warrener request TYPE" in page.text


async def test_the_newest_jobs_come_first_with_why_they_are_so(
    browser: httpx.AsyncClient, console: Console
) -> None:
    dead = await put_dead(console.store, 90)
    running = await put_running(console.store, 30, progress=0.42, progress_note="rows")
    text = (await browser.get("/jobs")).text
    assert text.index(str(running.job_id)) < text.index(str(dead.job_id))
    assert "Damaged: expected 19 values, got 7" in text
    assert "42% rows" in text
    assert HOSTILE not in text
    assert await listed(browser, "") == [str(running.job_id), str(dead.job_id)]


async def test_each_filter_of_the_command_selects_here_too(
    browser: httpx.AsyncClient, console: Console
) -> None:
    store = console.store
    parent = await put_succeeded(store, 500, job_type="import")
    trace = "00-5b8efff798038103d269b633813fc60c-eee19b7ec3c10a01-01"
    wanted = await put_dead(
        store,
        100,
        job_type="flights.load",
        queue="loading",
        source="flights.api",
        parent_id=parent.job_id,
        traceparent=trace,
        arguments={"order": 17, "from": {"carrier": "AA"}},
        idempotency_key="order-17",
    )
    await put_queued(store, 200, job_type="mail.send", queue="mails", arguments={"order": 18})
    mine = [str(wanted.job_id)]
    for query in (
        "state=dead",
        "state=dead,retrying",
        "type=flights.load",
        "queue=loading",
        "source=flights.api",
        f"parent={parent.job_id}",
        "error=damaged",
        "argument=order%3D17",
        "argument=order%3D17+from.carrier%3DAA",
        "trace=5b8eff",
        "since=150s",
        "since=150s&until=50s",
        "q=order-17",
        f"q={str(wanted.job_id)[-8:]}",
    ):
        assert await listed(browser, query) == mine, query
    assert await listed(browser, "queue=loading&argument=order%3D18") == []


async def test_a_list_goes_on_behind_its_last_job(browser: httpx.AsyncClient, console: Console) -> None:
    rows = [await put_queued(console.store, seconds, queue="q1") for seconds in range(1, 8)]
    for query in ("limit=3", "limit=3&queue=q1"):
        found: list[str] = []
        after = ""
        while after is not None:
            answer = (await browser.get(f"/api/v1/jobs?{query}&after={after}")).json()
            found += [job["job_id"] for job in answer["jobs"]]
            after = answer["next"]
        assert found == [str(row.job_id) for row in rows]
    first = (await browser.get("/jobs?limit=3&queue=q1")).text
    assert f"after={rows[2].job_id}" in first
    assert "queue=q1" in first


async def test_counts_and_filters_stand_in_links(browser: httpx.AsyncClient, console: Console) -> None:
    for seconds in (1, 2, 3):
        await put_waiting(console.store, seconds, job_type="flights.load")
    await put_succeeded(console.store, job_type="mail.send")
    answer = (await browser.get("/api/v1/jobs?type=flights.load")).json()
    assert {state: count for state, count in answer["counts"].items() if count} == {"waiting": 3}
    text = (await browser.get("/jobs?type=flights.load&error=x")).text
    assert 'href="/jobs?type=flights.load&amp;error=x&amp;state=dead"' in text
    assert 'href="/jobs?type=flights.load"' in text  # the chip that removes the error
    assert '<option value="mail.send">' in text  # suggestions


@pytest.mark.parametrize(
    ("query", "sentence"),
    [
        ("state=odd", "expected some of waiting, queued"),
        ("since=soon", "since: expected a time such as 90s, 2h or P1D"),
        ("after=x", "after: expected the `next` of a page, got"),
        ("after=01936f2e-8a3b-7c4d-9e5f-0123456789ab", "begin again at the first page"),
        ("limit=many", "limit: Input should be a valid integer"),
        ("argument=a%3D%22", "argument: expected words like order=17"),
    ],
)
async def test_a_wrong_filter_is_named(browser: httpx.AsyncClient, query: str, sentence: str) -> None:
    page = await browser.get(f"/jobs?{query}")
    assert page.status_code == 400
    assert sentence in page.text


async def test_a_viewer_sees_no_way_to_change_jobs(open_browser: OpenBrowser, console: Console) -> None:
    row = await put_running(console.store)
    viewer = open_browser(guard=GuardOf(Role.VIEWER))
    text = (await viewer.get("/jobs")).text
    assert str(row.job_id) in text
    assert "Cancel ticked" not in text
    assert 'type="checkbox"' not in text
    assert (await viewer.get("/jobs/new")).status_code == 403


async def test_a_broker_that_is_away_is_named_by_actions(
    browser: httpx.AsyncClient, console: Console
) -> None:
    row = await put_running(console.store)
    answer = await browser.post("/api/v1/jobs/cancel", json={"ids": [str(row.job_id)]})
    assert answer.status_code == 409
    assert "expected a broker at" in answer.json()["sentence"]


async def test_a_bulk_action_without_jobs_is_refused(browser: httpx.AsyncClient, console: Console) -> None:
    await put_succeeded(console.store)
    nothing = await browser.post("/api/v1/jobs/cancel", json={})
    none_left = await browser.post("/api/v1/jobs/redrive", json={"query": "state=succeeded"})
    assert nothing.json()["sentence"].startswith("expected ids of jobs, or filters of a list, got neither")
    assert none_left.json()["sentence"].startswith("expected dead jobs, got none")


async def test_the_form_of_a_job_type_has_a_field_for_each_argument(
    browser: httpx.AsyncClient, console: Console
) -> None:
    schema: dict[str, Any] = {
        "path": {"type": "string", "description": f"the file {HOSTILE}"},
        "rows": {"anyOf": [{"type": "integer"}, {"type": "null"}], "default": None},
        "fast": {"type": "boolean", "default": False},
        "carrier": {"enum": ["AA", "UA"]},
        "options": {"type": "object"},
    }
    await console.store.put_job_types([job_type(schema)])
    text = (await browser.get("/jobs/new?type=flights.load")).text
    assert '<input type="text" name="argument.path" value="" placeholder="" required>' in text
    assert '<input type="number" step="1" name="argument.rows"' in text
    assert '<select name="argument.fast">' in text
    assert '<option value="AA">AA</option>' in text
    assert '<textarea class="mono" rows="2" name="argument.options"' in text
    assert HOSTILE not in text


async def test_a_job_is_requested_again_with_its_arguments_in_the_form(
    browser: httpx.AsyncClient, console: Console
) -> None:
    await console.store.put_job_types([job_type({"path": {"type": "string"}})])
    row = await put_dead(console.store, arguments={"path": f"a.csv{HOSTILE}", "old": [1, 2]})
    text = (await browser.get(f"/jobs/new?from={row.job_id}")).text
    assert 'name="argument.path" value="a.csv&lt;script&gt;' in text
    assert 'name="argument.old"' in text
    assert ">[1, 2]</textarea>" in text
    assert HOSTILE not in text
    as_json = (await browser.get(f"/jobs/new?from={row.job_id}&as=json")).text
    assert 'name="arguments"' in as_json


async def test_a_text_that_is_no_number_is_refused_before_anything_is_sent(
    browser: httpx.AsyncClient, console: Console
) -> None:
    await console.store.put_job_types([job_type({"rows": {"type": "integer"}})])
    answer = await browser.post("/api/v1/jobs", json={"job_type": "flights.load", "fields": {"rows": "many"}})
    assert answer.json()["sentence"] == "rows: expected integer, got 'many'"


async def test_errors_of_late_are_suggested(browser: httpx.AsyncClient, console: Console) -> None:
    await put_dead(console.store)
    text = (await browser.get("/jobs")).text
    assert f'<option value="{ERROR.type}">' in text
    assert '<option value="default">' in text


async def test_arguments_stand_beside_the_type_without_secrets(
    browser: httpx.AsyncClient, console: Console
) -> None:
    arguments = {"path": "a.csv", "password": "hunter2", "rows": [1, 2], "note": f"{HOSTILE} {'x' * 5000}"}
    await put_waiting(console.store, arguments=arguments)
    text = (await browser.get("/jobs")).text
    assert "path=a.csv password=*** rows=[1, 2] note=" in text
    assert "hunter2" not in text
    assert HOSTILE not in text
    [job] = (await browser.get("/api/v1/jobs")).json()["jobs"]
    assert len(job["brief_arguments"]) == 100
    assert job["brief_arguments"].endswith("x…")


async def test_a_held_job_names_its_breaker_and_is_not_due(
    browser: httpx.AsyncClient, console: Console
) -> None:
    await put_waiting(console.store, due_at=ago(1200), wake_at=ago(-60))
    await put_waiting(console.store, job_type="mail.send")
    await console.store.put_breaker(open_breaker("job:flights.load"))
    text = (await browser.get("/jobs?type=flights.load")).text
    assert "held by job:flights.load" in text
    assert "due " not in text[text.index("jobs-list") :]
    jobs = (await browser.get("/api/v1/jobs")).json()["jobs"]
    assert {job["job_type"]: job["held_by"] for job in jobs} == {
        "flights.load": "job:flights.load",
        "mail.send": None,
    }
    assert "due " in (await browser.get("/jobs?type=mail.send")).text


async def test_attempts_that_are_not_charged_never_exceed_the_maximum(
    browser: httpx.AsyncClient, console: Console
) -> None:
    row = await put_running(console.store, attempt=8, losses=7)
    await put_running(console.store, job_type="mail.send", attempt=2)
    text = (await browser.get("/jobs")).text
    assert f"8/{row.policy.max_attempts}" not in text
    assert f">2/{row.policy.max_attempts}<" in text
    page = (await browser.get(f"/jobs/{row.job_id}")).text
    assert f"8 of {row.policy.max_attempts}" not in page
    assert "7 were lost" in page
