"""The page of a workflow: what it waits for, and the form that sends a signal to it."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any
from uuid import UUID

import pytest
from tests.store_rows import redrive_row

from warrener.operations.noun import ActionBody, VerbCall
from warrener.operations.redrives import follow
from warrener.operations.roles import Role
from warrener.web.console import Console
from warrener_client import Client
from warrener_client.testing import StandIn
from warrener_contracts.events import (
    Answer,
    ErrorInfo,
    ErrorKind,
    Event,
    JobContinueRequested,
    JobSignalRequested,
    Suspension,
)
from warrener_contracts.identity import child_job_id, undo_job_id
from warrener_contracts.journals import all_calls
from warrener_contracts.state_machine import JobState
from warrener_runtime.bus.memory import MemoryBroker, MemoryBus
from warrener_store.dead_letters.rows import (
    DeadLetterFilter,
    DeadLetterState,
    DeadLetterTransition,
    RedriveState,
)
from warrener_store.jobs.rows import Save, evolve
from warrener_store.workflows.rows import TurnRow

from .charts.workflow_courses import batches, child_id, map_of
from .conftest import Browser, OpenBrowser, page_of, read
from .stored_jobs import HOSTILE, ago, put_dead, put_running, put_succeeded, put_workflow
from .test_app import GuardOf

TOKEN = {"X-CSRF-Token": "open"}


@pytest.fixture
async def services(console: Console, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[StandIn]:
    """A broker in memory with a stand-in for the services, which refuses the signal `late`."""
    broker = MemoryBroker()

    def refuse(event: Event[Any]) -> str | None:
        name = getattr(event.data, "name", "")
        return "expected a job that has not ended, got a dead one" if name == "late" else None

    async with (
        StandIn(MemoryBus(broker), {}, refuse=refuse) as warren,
        Client(bus=MemoryBus(broker)) as client,
    ):

        async def connected() -> Client:
            return client

        monkeypatch.setattr(console, "client", connected)
        yield warren


async def test_a_suspended_workflow_shows_its_calls_and_awaits_its_signal_in_a_form(
    browser: Browser, console: Console
) -> None:
    row, child = await put_workflow(console.store)
    text = await page_of(browser, f"/jobs/{row.job_id}")
    calls = text[text.index('id="calls"') : text.index('id="timeline-title"')]
    for words in (
        "orders.py:41",
        f'href="/jobs/{child.job_id}"',
        "cards.refund",
        "answered",
        f'action="/jobs/{row.job_id}/send"',
        "Send packed",
    ):
        assert words in calls, words
    order = [calls.index(name) for name in (">cards.charge<", ">packed<", ">price<")]
    assert order == sorted(order), "what is awaited stands first"
    assert "its calls" in text, "the timeline has the suspension"
    assert 'id="calls"' not in await page_of(browser, f"/jobs/{child.job_id}")
    listed = await page_of(browser, "/jobs?state=suspended")
    assert "waits for cards.charge, orders.py:41, and 1 more" in listed
    assert "1 suspended" in await page_of(browser, "/")


async def test_child_jobs_are_cancelled_where_some_have_not_ended(browser: Browser, console: Console) -> None:
    row = await put_succeeded(console.store)
    await put_succeeded(console.store, parent_id=row.job_id)
    assert "Cancel child jobs" not in await page_of(browser, f"/jobs/{row.job_id}")
    await put_running(console.store, 5, parent_id=row.job_id)
    assert "Cancel child jobs" in await page_of(browser, f"/jobs/{row.job_id}")


async def test_a_suspended_workflow_has_a_graph_that_leads_to_its_jobs(
    browser: Browser, console: Console
) -> None:
    row, child = await put_workflow(console.store)
    graph = graph_of(await page_of(browser, f"/jobs/{row.job_id}"))
    assert (
        f'<a href="/jobs/{child.job_id}" class="chart-link" aria-label="cards.charge, orders.py:41, ' in graph
    )
    for words in ("step, answered", "signal, awaited 5", "3 calls, in the order", 'tabindex="0"'):
        assert words in graph, words
    assert 'id="graph"' not in await page_of(browser, f"/jobs/{child.job_id}")


async def test_the_graph_of_2000_calls_is_light_and_lists_20_failures(
    browser: Browser, console: Console
) -> None:
    course = map_of(1990, failures=30)
    row = course.row(wake_at=ago(-600))
    await console.store.insert_jobs([row])
    await console.store.keep_answers([replace(turn, suspension=None) for turn in course.turns])
    await console.store.keep_suspensions(course.turns)
    graph = graph_of(await page_of(browser, f"/jobs/{row.job_id}"))
    assert "1,960 succeeded, 30 dead" in graph
    assert graph.count("NoRoom: all vans are full") == 20
    failed = f"files.load/0/map#1/{1990 - 30}"
    assert f'href="/jobs/{child_id(f"job/{failed}")}"' in graph
    assert f'10 more: <a href="/jobs?parent={row.job_id}&amp;state=dead">' in graph
    assert len(graph) < 16_000


async def test_the_failures_of_a_map_are_listed_with_their_jobs_in_the_graph_and_among_the_calls(
    browser: Browser, console: Console
) -> None:
    course = batches()
    row = course.row(wake_at=ago(-600))
    await console.store.insert_jobs([row])
    await console.store.keep_suspensions(course.turns)
    page = await page_of(browser, f"/jobs/{row.job_id}")
    failed = child_job_id(row.job_id, "map/files.load/0/map#1/0/7")
    assert page.count(f'href="/jobs/{failed}"') == 2
    for part in (graph_of(page), page[page.index('id="calls"') :]):
        assert "files.load, item 7" in part
        assert "NoRoom: all vans are full" in part
        assert "and 1 more of 500" in part


def graph_of(page: str) -> str:
    return page[page.index('id="graph"') : page.index('id="calls"')]


async def test_the_journal_and_the_tree_are_read_without_secrets(browser: Browser, console: Console) -> None:
    row, child = await put_workflow(console.store)
    journal = await read(browser, f"/jobs/{row.job_id}/journal")
    [turn] = journal["turns"]
    assert [call["call_id"] for call in turn["suspension"]["calls"]] == [
        "step/price#1",
        "job/cards.charge#1",
        "signal/packed#1",
    ]
    assert turn["suspension"]["answers"][0]["result"] == {"euros": 99, "note": HOSTILE}
    assert "t0ps3cret" not in str(journal)
    tree = await read(browser, f"/jobs/{row.job_id}/tree")
    assert [one["job_id"] for one in tree["jobs"]] == [str(row.job_id), str(child.job_id)]
    assert (await read(browser, f"/jobs/{child.job_id}/journal"))["turns"] == []


async def test_a_signal_is_sent_by_form_and_by_program_and_stands_in_the_audit_log(
    browser: Browser, console: Console, services: StandIn
) -> None:
    row, _ = await put_workflow(console.store)
    form, api = f"/jobs/{row.job_id}/send", f"/api/v1/jobs/{row.job_id}/send"
    fields = {"csrf_token": "open", "name": "packed"}
    for data in ('{"box": "A4"}', ""):
        assert (await browser.post(form, data=fields | {"data": data})).status_code == 303
    body = {"name": "packed", "data": "17", "reason": "by hand"}
    answer = await browser.post(api, json=body, headers=TOKEN)
    assert (answer.status_code, answer.json()["sentence"]) == (200, f"sent packed to job {row.job_id}")
    refused = await browser.post(api, json={"name": "late"}, headers=TOKEN)
    assert refused.status_code == 409
    assert "has not ended" in refused.json()["sentence"]
    sent = [one.data.data for one in services.commands if isinstance(one, JobSignalRequested)]
    assert sent == [{"box": "A4"}, None, "17", None], "a text of a program stays a text"
    audited = (await read(browser, "/audit", action="job.send"))["records"]
    assert [one["outcome"] for one in audited] == ["refused", "accepted", "accepted", "accepted"]
    assert {one["subject"] for one in audited} == {str(row.job_id)}


async def test_a_redrive_whose_new_job_is_suspended_is_not_waited_for(console: Console) -> None:
    dead, (new, _) = await put_dead(console.store), await put_workflow(console.store)
    [dead_letter] = await console.store.dead_letter_store.list_dead_letters(DeadLetterFilter())
    redrive = redrive_row(state=RedriveState.CANARY, counts={"redriven": 1})
    redriven = replace(
        dead_letter,
        state=DeadLetterState.REDRIVEN,
        redrive_id=redrive.redrive_id,
        redriven_as=new.job_id,
        redrives=1,
    )
    assert dead_letter.job_id == dead.job_id
    taken = DeadLetterTransition(DeadLetterState.OPEN, redriven)
    await console.store.dead_letter_store.save_redrive(redrive)
    await console.store.dead_letter_store.save_redrive(replace(redrive, version=2), [taken])
    call = VerbCall(
        backend=console, key="", by="ann", body=ActionBody(), reply_timeout=1.0, progress=lambda _: None
    )
    async with asyncio.timeout(5):
        found, line = await follow(call, redrive.redrive_id)
    assert (found.is_over, line) == (False, f"its new job {new.job_id} is suspended")


async def test_the_page_of_a_workflow_counts_turns_and_names_its_end_apart(
    browser: Browser, console: Console
) -> None:
    row, _ = await put_workflow(console.store)
    text = await page_of(browser, f"/jobs/{row.job_id}")
    assert "1 turn, of which 0 of at most 5 failed" in text
    assert "No attempt has run yet" not in text
    ended = evolve(
        row,
        version=2,
        state=JobState.CANCELLED,
        finished_at=row.updated_at,
        wake_at=None,
        cancel_reason="wrong order",
        ending_reason="wrong order; undone: cards.charge",
    )
    await console.store.save_jobs([Save(ended)])
    text = await page_of(browser, f"/jobs/{row.job_id}")
    assert "<dt>End</dt><dd>wrong order; undone: cards.charge</dd>" in text
    assert "/send" not in text, "nothing receives a signal any longer"


async def test_a_viewer_sees_the_calls_without_a_form(open_browser: OpenBrowser, console: Console) -> None:
    row, _ = await put_workflow(console.store)
    text = await page_of(open_browser(guard=GuardOf(Role.VIEWER)), f"/jobs/{row.job_id}")
    assert 'id="calls"' in text
    assert "/send" not in text


async def test_a_workflow_that_was_cancelled_names_the_undo_that_it_waits_for(
    browser: Browser, console: Console
) -> None:
    row, child = await put_workflow(console.store)
    ended = evolve(child, version=2, state=JobState.SUCCEEDED, finished_at=child.started_at, wake_at=None)
    ending = evolve(row, version=2, ending=JobState.CANCELLED, ending_reason="wrong order")
    await console.store.save_jobs([Save(ended), Save(ending)])
    undo = await put_running(
        console.store,
        job_id=undo_job_id(row.job_id, "job/cards.charge#1"),
        job_type="cards.refund",
        parent_id=row.job_id,
    )
    details = await read(browser, f"/jobs/{row.job_id}")
    assert [call["undo_state"] for call in details["calls"]] == [None, "running", None]
    assert details["awaits"] == "undoes its calls, then is cancelled"
    text = await page_of(browser, f"/jobs/{row.job_id}")
    assert f'href="/jobs/{undo.job_id}"' in text
    plain = await read(browser, f"/jobs/{(await put_succeeded(console.store)).job_id}")
    assert plain["calls"] == []


async def test_a_held_workflow_shows_why_and_has_a_button_for_each_end_of_its_hold(
    browser: Browser, console: Console, services: StandIn
) -> None:
    row, _ = await put_workflow(console.store)
    held = evolve(row, version=row.version + 1, ending_reason="its 5 attempts are used up")
    assert await console.store.save_jobs([Save(held)])
    text = await page_of(browser, f"/jobs/{row.job_id}")
    assert "is held: its 5 attempts are used up" in text
    for verb in ("resume", "undo"):
        form = f"/jobs/{row.job_id}/{verb}"
        assert f'action="{form}"' in text
        assert (await browser.post(form, data={"csrf_token": "open"})).status_code == 303
    sent = [one.data.action.value for one in services.commands if isinstance(one, JobContinueRequested)]
    assert sent == ["resume", "undo"]


async def test_a_held_workflow_has_a_button_for_the_call_that_failed_and_shows_both_of_its_jobs(
    browser: Browser, console: Console, services: StandIn
) -> None:
    row, child = await put_workflow(console.store)
    call_id = "job/cards.charge#1"
    error = ErrorInfo(kind=ErrorKind.ERROR, type="Declined", message="the card has expired")
    died = Answer(call_id=call_id, at=row.updated_at, state=JobState.DEAD, error=error)
    await console.store.keep_answers([TurnRow(job_id=row.job_id, attempt=row.attempt + 1, answers=(died,))])
    held = evolve(row, version=row.version + 1, attempt=row.attempt + 1, ending_reason="no retry can mend it")
    assert await console.store.save_jobs([Save(held)])
    text = await page_of(browser, f"/jobs/{row.job_id}")
    assert "Retry cards.charge" in text
    assert text.count(f'<input type="hidden" name="retry" value="{call_id}">') == 2, "above, and in the list"
    form = {"csrf_token": "open", "retry": call_id}
    assert (await browser.post(f"/jobs/{row.job_id}/resume", data=form)).status_code == 303
    (sent,) = [one.data for one in services.commands if isinstance(one, JobContinueRequested)]
    assert (sent.action.value, sent.retry) == ("resume", (call_id,))
    turns = (await console.store.turns_of([row.job_id]))[row.job_id]
    failed = next(one for one in all_calls(turns) if one.call_id == call_id)
    again = failed.model_copy(update={"job_id": UUID(int=7), "retry_of": failed.job_id})
    retry = TurnRow(job_id=row.job_id, attempt=row.attempt + 1, suspension=Suspension(calls=(again,)))
    await console.store.keep_suspensions([retry])
    (call,) = [
        one for one in (await read(browser, f"/jobs/{row.job_id}"))["calls"] if one["call_id"] == call_id
    ]
    assert (call["job_id"], call["retry_of"], call["error"]) == (str(UUID(int=7)), str(child.job_id), "")
    assert "in place of" in await page_of(browser, f"/jobs/{row.job_id}")
