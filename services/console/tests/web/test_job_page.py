"""The page of one job: what happened, what happens now, and what its reader can do about it."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import replace
from uuid import UUID, uuid4

import httpx
import pytest
from tests.store_rows import redrive_row

from warrener.context import ResolvedEndpoints
from warrener.doctor.inspector import QueueInfo
from warrener.errors import CommandError
from warrener.operations.masking import restore_hidden
from warrener.operations.system import SharedInspector
from warrener.selection import find_job_id
from warrener.web.console import Console
from warrener_contracts.events import FlightRecord
from warrener_contracts.state_machine import JobState
from warrener_runtime.secrets import HIDDEN
from warrener_store.dead_letters.rows import (
    DeadLetterFilter,
    DeadLetterState,
    DeadLetterTransition,
    RedriveRow,
)
from warrener_store.jobs.views import CheckpointRow
from warrener_store.statistics.rows import AgentVersion

from .conftest import page_of
from .stored_jobs import (
    ERROR,
    HOSTILE,
    ago,
    put_dead,
    put_lines,
    put_queued,
    put_running,
    put_succeeded,
    put_waiting,
)


async def job_page(browser: httpx.AsyncClient, job_id: object, query: str = "") -> str:
    """The page of a job."""
    return await page_of(browser, f"/jobs/{job_id}{query}")


async def test_a_succeeded_job_shows_its_result_and_its_timeline(
    browser: httpx.AsyncClient, console: Console
) -> None:
    row = await put_succeeded(console.store, arguments={"note": HOSTILE})
    text = await job_page(browser, row.job_id)
    assert "&#34;rows&#34;: 842" in text
    assert "chart-waterfall" in text
    assert "Cancel…" not in text
    assert "Request again…" in text
    assert "Why it ended so" not in text


async def test_a_dead_job_shows_each_attempt_and_its_stack_once(
    browser: httpx.AsyncClient, console: Console
) -> None:
    record = FlightRecord(stacks=f"thread 1 {HOSTILE}", cpu_seconds=12.5, log=f"last words {HOSTILE}")
    error = ERROR.model_copy(update={"flight_record": record})
    row = await put_dead(console.store, error=error)
    text = await job_page(browser, row.job_id)
    assert 'id="attempt-1"' in text
    assert 'id="attempt-2"' in text
    assert text.count("line 31, in load") == 1
    assert 'The stack is that of <a href="#attempt-2">attempt 2</a>' in text
    assert "12.5 s of a processor" in text
    assert "last words" in text
    assert "dead: attempts used up" in text
    assert "Redrive…" in text
    assert 'href="/dead-letters/9f86d081884c"' in text
    assert "Why it ended so" in text


async def test_a_stack_keeps_its_indentation_and_a_cut_is_noted_before_it(
    browser: httpx.AsyncClient, console: Console
) -> None:
    short = await put_dead(
        console.store, error=ERROR.model_copy(update={"stack": "  File a\n    load()\n\n"})
    )
    assert '<pre class="code" tabindex="0">  File a\n    load()</pre>' in await job_page(
        browser, short.job_id
    )
    long = await put_dead(console.store, error=ERROR.model_copy(update={"stack": "x" * 17_000}))
    text = await job_page(browser, long.job_id)
    assert 0 < text.index("1\u202f000 characters before these are not shown") < text.index("x" * 16_000)


async def test_the_cause_of_a_dead_job_has_a_button_and_each_error_stands_once(
    browser: httpx.AsyncClient, console: Console
) -> None:
    row = await put_dead(console.store)
    text = await job_page(browser, row.job_id)
    box = text[text.index('id="explain-title"') : text.index('id="timeline-title"')]
    assert 'action="/jobs/redrive"' in box
    assert f'name="ids" value="{row.job_id}"' in box
    assert "warrener dead-letters" not in box, "a button stands for the command"
    assert 'as <a href="#attempt-2">attempt 2</a>' in text


async def test_a_running_job_shows_progress_checkpoint_and_what_happens_now(
    browser: httpx.AsyncClient, console: Console
) -> None:
    row = await put_running(console.store, progress=0.42, progress_note=f"rows {HOSTILE}")
    saved = CheckpointRow(job_id=row.job_id, attempt=1, number=3, state={"line": HOSTILE}, saved_at=ago(10))
    await console.store.keep_checkpoints([saved])
    text = await job_page(browser, row.job_id)
    assert "42 %" in text
    assert "Checkpoint 3" in text
    assert "Cancel…" in text
    explanation = (await browser.get(f"/api/v1/jobs/{row.job_id}")).json()["explanation"]
    assert explanation["cause"] == "broker_unreachable"


async def test_log_lines_are_shown_by_attempt_and_escaped(
    browser: httpx.AsyncClient, console: Console
) -> None:
    row = await put_dead(console.store)
    await put_lines(console.store, row.job_id, 1, "first try", f"tag {HOSTILE}")
    await put_lines(console.store, row.job_id, 2, "second try")
    newest, first = await job_page(browser, row.job_id), await job_page(browser, row.job_id, "?log=1")
    assert "second try" in newest
    assert "first try" not in newest
    assert "first try" in first
    assert "tag &lt;script&gt;" in first
    log = (await browser.get(f"/api/v1/jobs/{row.job_id}/logs?attempt=1")).json()
    assert [line["text"] for line in log["lines"]] == ["first try", f"tag {HOSTILE}"]
    assert log["complete"] is True
    assert (await browser.get(f"/jobs/{row.job_id}?log=x")).status_code == 400


async def test_parent_children_and_the_jobs_of_a_redrive_lead_to_each_other(
    browser: httpx.AsyncClient, console: Console
) -> None:
    store = console.store
    parent = await put_succeeded(store, 200, job_type="import")
    dead = await put_dead(store, 100, parent_id=parent.job_id)
    new = await put_queued(store, 5, parent_id=parent.job_id)
    redrive = _redrive(dead.job_id)
    await store.dead_letter_store.save_redrive(redrive)
    open_one = (await store.dead_letter_store.list_dead_letters(_all_of(dead.job_id)))[0]
    claimed = replace(
        open_one,
        state=DeadLetterState.REDRIVEN,
        redrive_id=redrive.redrive_id,
        redriven_as=new.job_id,
        redriven_at=ago(4),
    )
    await store.dead_letter_store.save_redrive(
        replace(redrive, version=2), [DeadLetterTransition(open_one.state, claimed)]
    )
    of_dead, of_new, of_parent = [await job_page(browser, row.job_id) for row in (dead, new, parent)]
    assert f'href="/jobs/{new.job_id}"' in of_dead
    assert f'href="/redrives/{redrive.redrive_id}"' in of_dead
    assert f'href="/jobs/{dead.job_id}"' in of_new
    assert f'href="/jobs/{parent.job_id}"' in of_new
    assert f'href="/jobs/{dead.job_id}"' in of_parent
    assert f'href="/jobs?parent={parent.job_id}"' in of_parent


def _all_of(job_id: UUID) -> DeadLetterFilter:
    return DeadLetterFilter(states=(), job_ids=(job_id,))


def _redrive(job_id: UUID) -> RedriveRow:
    return redrive_row(
        request={"selection": {"job_ids": [str(job_id)]}},
        reason=f"mended {HOSTILE}",
        requested_at=ago(5),
        started_at=ago(5),
        wake_at=ago(-60),
        updated_at=ago(5),
    )


async def test_a_part_of_an_id_leads_to_the_job(browser: httpx.AsyncClient, console: Console) -> None:
    row = await put_queued(console.store, idempotency_key="order-17")
    for text in (str(row.job_id)[-8:], "order-17"):
        answer = await browser.get(f"/jobs/{text}")
        assert (answer.status_code, answer.headers["location"]) == (303, f"/jobs/{row.job_id}")
    assert (await browser.get(f"/api/v1/jobs/{str(row.job_id)[-8:]}")).json()["state"] == "queued"


async def test_a_whole_id_stands_for_itself_unless_it_is_the_key_of_a_job(console: Console) -> None:
    """Services know more jobs than the store, and refuse those that they do not know."""
    key, unknown = uuid4(), uuid4()
    row = await put_queued(console.store, idempotency_key=str(key))
    for text, expected in ((str(key), row.job_id), (str(unknown), unknown)):
        assert await find_job_id(console.store, text) == expected
    with pytest.raises(CommandError, match="no job has it"):
        await find_job_id(console.store, "nobody")


@pytest.mark.parametrize("text", ["01936f2e-8a3b-7c4d-9e5f-0123456789ab", "nobody", HOSTILE])
async def test_an_unknown_job_is_not_found(browser: httpx.AsyncClient, text: str) -> None:
    answer = await browser.get(f"/jobs/{text.replace('/', '%2F')}")
    assert answer.status_code == 404
    assert HOSTILE not in answer.text


async def test_what_is_too_long_for_a_page_is_cut(browser: httpx.AsyncClient, console: Console) -> None:
    row = await put_waiting(console.store, arguments={"rows": ["x" * 100] * 9000})
    await put_lines(console.store, row.job_id, 1, *(["y" * 5000] * 400))
    text = await job_page(browser, row.job_id)
    assert len(text) < 700_000
    assert "characters in all; the API has them" in text
    assert "4\u202f000 characters more" in text


async def test_the_timeline_of_the_api_names_each_wait(browser: httpx.AsyncClient, console: Console) -> None:
    row = await put_dead(console.store)
    timeline = (await browser.get(f"/api/v1/jobs/{row.job_id}/timeline")).json()
    assert [each["kind"] for each in timeline["rows"]][:2] == ["request", "wait"]
    assert timeline["state"] == JobState.DEAD


async def test_the_trace_has_a_link_where_an_address_is_set(
    browser: httpx.AsyncClient, console: Console
) -> None:
    trace_id = "5b8efff798038103d269b633813fc60c"
    row = await put_queued(console.store, traceparent=f"00-{trace_id}-eee19b7ec3c10a01-01")
    assert "jaeger" not in await job_page(browser, row.job_id)
    address = "https://jaeger.example/trace/{trace_id}"
    console.settings = console.settings.model_copy(update={"console_trace_url": address})
    assert f'href="https://jaeger.example/trace/{trace_id}"' in await job_page(browser, row.job_id)


async def test_all_pages_share_one_connection_and_its_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[str] = []
    queried: list[str] = []

    class CountingInspector:
        broker = "RabbitMQ 4.3.0"

        async def queue(self, name: str) -> QueueInfo:
            queried.append(name)
            return QueueInfo(3, 1)

    @asynccontextmanager
    async def open_counting(url: str, namespace: str) -> AsyncGenerator[CountingInspector]:
        opened.append(url)
        yield CountingInspector()

    monkeypatch.setattr("warrener.operations.system.open_inspector", open_counting)
    inspector = SharedInspector(ResolvedEndpoints("amqp://here/", "", "", from_up=False))
    facts = await asyncio.gather(*(inspector.query(["default"]) for _ in range(20)))
    assert len(opened) == 1
    assert len(queried) == 3, "requests, reports, and the queue of the job"
    assert {fact.queues["default"] for fact in facts} == {QueueInfo(3, 1)}
    both = await inspector.query(["mails"])
    assert both.queues.keys() == {"default", "mails"}
    await inspector.close()
    assert len(opened) == 1


async def test_a_broker_that_is_away_is_not_tried_for_each_page(monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[str] = []

    def refuse(url: str, namespace: str) -> None:
        opened.append(url)
        raise ConnectionRefusedError("no")

    monkeypatch.setattr("warrener.operations.system.open_inspector", refuse)
    inspector = SharedInspector(ResolvedEndpoints("amqp://here/", "", "", from_up=False))
    facts = [await inspector.query(["default"]) for _ in range(20)]
    assert len(opened) == 1
    assert {fact.trouble for fact in facts} == {"no"}


def test_hidden_arguments_are_those_of_the_job_that_is_requested_again() -> None:
    original = {"user": "ann", "password": "hunter2", "in": [{"api_key": "k"}], "old": 1}
    given = {"user": "bob", "password": HIDDEN, "in": [{"api_key": HIDDEN}], "new": HIDDEN}
    assert restore_hidden(given, original) == {
        "user": "bob",
        "password": "hunter2",
        "in": [{"api_key": "k"}],
        "new": HIDDEN,
    }


async def test_the_version_of_the_code_stands_with_its_attempt(
    browser: httpx.AsyncClient, console: Console
) -> None:
    row = await put_dead(console.store)
    versions = [
        AgentVersion(agent_id="loader-7f3a", since=ago(9000), code_version="2.4.0"),
        AgentVersion(agent_id="loader-7f3a", since=ago(1), code_version="2.4.1"),
    ]
    await console.store.statistics.put_agent_versions(versions)
    text = await job_page(browser, row.job_id)
    assert "2.4.0" in text
    assert "2.4.1" not in text
