"""The list of jobs: its filters, its pages, its counts, and the form that requests a job."""

from typing import Any

import pytest

from warrener.operations.roles import Role
from warrener.web.console import Console

from .conftest import Browser, OpenBrowser, page_of, read, read_pages
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


async def listed(browser: Browser, query: str = "") -> list[str]:
    return [job["job_id"] for job in (await read(browser, f"/jobs?{query}"))["jobs"]]


async def test_the_newest_jobs_come_first_with_why_they_are_so_and_what_can_be_chosen(
    browser: Browser, console: Console, open_browser: OpenBrowser
) -> None:
    dead = await put_dead(console.store, 90)
    running = await put_running(console.store, 30, progress=0.42, progress_note="rows")
    text = await page_of(browser, "/jobs")
    assert text.index(str(running.job_id)) < text.index(str(dead.job_id))
    assert "Damaged: expected 19 values, got 7" in text
    assert "42% rows" in text
    for suggestion in (ERROR.type, "default"):
        assert f'<option value="{suggestion}">' in text
    assert await listed(browser) == [str(running.job_id), str(dead.job_id)]
    viewer = open_browser(guard=GuardOf(Role.VIEWER))
    of_viewer = await page_of(viewer, "/jobs")
    assert str(running.job_id) in of_viewer
    for way_to_change in ("Cancel ticked", 'name="ids"'):
        assert way_to_change in text
        assert way_to_change not in of_viewer
    assert (await viewer.get("/jobs/new")).status_code == 403


async def test_each_filter_of_the_command_selects_here_too(browser: Browser, console: Console) -> None:
    store = console.store
    parent = await put_succeeded(store, 500, job_type="import")
    wanted = await put_dead(
        store,
        100,
        job_type="flights.load",
        queue="loading",
        source="flights.api",
        parent_id=parent.job_id,
        traceparent="00-5b8efff798038103d269b633813fc60c-eee19b7ec3c10a01-01",
        arguments={"order": 17, "from": {"carrier": "AA"}},
        idempotency_key="order-17",
    )
    await put_queued(store, 200, job_type="mail.send", queue="mails", arguments={"order": 18})
    for query in (
        "state=dead",
        "state=dead,retrying",
        "type=flights.load",
        "queue=loading",
        "source=flights.api",
        f"parent={parent.job_id}",
        "error=damaged",
        "argument=order%3D17",
        "trace=5b8eff",
        "argument=order%3D17+from.carrier%3DAA",
        "since=150s",
        "since=150s&until=50s",
        "q=order-17",
        f"q={str(wanted.job_id)[-8:]}",
    ):
        assert await listed(browser, query) == [str(wanted.job_id)], query
    assert await listed(browser, "queue=loading&argument=order%3D18") == []
    assert str(wanted.job_id) not in await listed(browser, "top=true"), "it is a child job"


async def test_a_list_goes_on_behind_its_last_job(browser: Browser, console: Console) -> None:
    rows = [await put_queued(console.store, seconds, queue="q1") for seconds in range(1, 8)]
    filters: tuple[dict[str, str], ...] = ({}, {"queue": "q1"})
    for filtered in filters:
        found = await read_pages(browser, "/jobs", "jobs", limit=3, **filtered)
        assert [job["job_id"] for job in found] == [str(row.job_id) for row in rows]
    first = await page_of(browser, "/jobs?limit=3&queue=q1")
    assert f"after={rows[2].job_id}" in first
    assert "queue=q1" in first


async def test_counts_and_filters_stand_in_links(browser: Browser, console: Console) -> None:
    for seconds in (1, 2, 3):
        await put_waiting(console.store, seconds, job_type="flights.load")
    await put_succeeded(console.store, job_type="mail.send")
    counts = (await read(browser, "/jobs?type=flights.load"))["counts"]
    assert {state: count for state, count in counts.items() if count} == {"waiting": 3}
    text = await page_of(browser, "/jobs?type=flights.load&error=x")
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
async def test_a_wrong_filter_is_named(browser: Browser, query: str, sentence: str) -> None:
    page = await browser.get(f"/jobs?{query}")
    assert (page.status_code, sentence in page.text) == (400, True)


async def test_an_action_that_cannot_be_is_refused_in_words(browser: Browser, console: Console) -> None:
    await console.store.put_job_types([job_type({"rows": {"type": "integer"}})])
    row = await put_running(console.store)
    await put_succeeded(console.store)
    no_number = {"job_type": "flights.load", "fields": {"rows": "many"}}
    for path, body, sentence in (
        ("/jobs/cancel", {"ids": [str(row.job_id)]}, "expected a broker at"),
        ("/jobs/cancel", {}, "expected ids of jobs, or filters of a list, got neither"),
        ("/jobs/redrive", {"query": "state=succeeded"}, "expected dead jobs, got none"),
        ("/jobs", no_number, "rows: expected integer, got 'many'"),
    ):
        answer = await browser.post(f"/api/v1{path}", json=body)
        assert answer.status_code == 409
        assert answer.json()["sentence"].startswith(sentence)


async def test_the_form_of_a_job_type_has_a_field_for_each_argument(
    browser: Browser, console: Console
) -> None:
    schema: dict[str, Any] = {
        "path": {"type": "string", "description": f"the file {HOSTILE}"},
        "rows": {"anyOf": [{"type": "integer"}, {"type": "null"}], "default": None},
        "fast": {"type": "boolean", "default": False},
        "carrier": {"enum": ["AA", "UA"]},
        "options": {"type": "object"},
    }
    await console.store.put_job_types([job_type(schema)])
    text = await page_of(browser, "/jobs/new?type=flights.load")
    for field in (
        '<input type="text" name="argument.path" value="" placeholder="" required>',
        '<input type="number" step="1" name="argument.rows"',
        '<select name="argument.fast">',
        '<option value="AA">AA</option>',
        '<textarea class="mono" rows="2" name="argument.options"',
    ):
        assert field in text
    row = await put_dead(console.store, arguments={"path": f"a.csv{HOSTILE}", "old": [1, 2]})
    again = await page_of(browser, f"/jobs/new?from={row.job_id}")
    for field in (
        'name="argument.path" value="a.csv&lt;script&gt;',
        'name="argument.old"',
        ">[1, 2]</textarea>",
    ):
        assert field in again
    assert 'name="arguments"' in await page_of(browser, f"/jobs/new?from={row.job_id}&as=json")


async def test_arguments_stand_beside_the_type_without_secrets(browser: Browser, console: Console) -> None:
    arguments = {"path": "a.csv", "password": "hunter2", "rows": [1, 2], "note": f"{HOSTILE} {'xx ' * 5000}"}
    await put_waiting(console.store, arguments=arguments)
    text = await page_of(browser, "/jobs")
    assert "path=a.csv password=*** rows=[1, 2] note=" in text
    assert "hunter2" not in text
    [job] = (await read(browser, "/jobs"))["jobs"]
    assert len(job["brief_arguments"]) == 100
    assert job["brief_arguments"].endswith("xx…")


async def test_a_held_job_names_its_breaker_and_is_not_due(browser: Browser, console: Console) -> None:
    await put_waiting(console.store, due_at=ago(1200), wake_at=ago(-60))
    await put_waiting(console.store, job_type="mail.send")
    await console.store.put_breaker(open_breaker("job:flights.load"))
    text = await page_of(browser, "/jobs?type=flights.load")
    assert "held by job:flights.load" in text
    assert "due " not in text[text.index("jobs-list") :]
    held = {job["job_type"]: job["held_by"] for job in (await read(browser, "/jobs"))["jobs"]}
    assert held == {"flights.load": "job:flights.load", "mail.send": None}
    assert "due " in await page_of(browser, "/jobs?type=mail.send")


async def test_attempts_that_are_not_charged_never_exceed_the_maximum(
    browser: Browser, console: Console
) -> None:
    row = await put_running(console.store, attempt=8, losses=7)
    await put_running(console.store, job_type="mail.send", attempt=2)
    text, page = await page_of(browser, "/jobs"), await page_of(browser, f"/jobs/{row.job_id}")
    assert f"8/{row.policy.max_attempts}" not in text
    assert f">2/{row.policy.max_attempts}<" in text
    assert f"8 of {row.policy.max_attempts}" not in page
    assert "7 were lost" in page
