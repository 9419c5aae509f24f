"""The page of one job: what happened, what happens now, and what its reader can do about it."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import replace
from uuid import uuid4

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
from warrener_contracts.private_payloads import MARK
from warrener_contracts.state_machine import JobState
from warrener_runtime.secrets import HIDDEN
from warrener_store.dead_letters.rows import DeadLetterFilter, DeadLetterState, DeadLetterTransition
from warrener_store.jobs.views import CheckpointRow
from warrener_store.statistics.rows import AgentVersion

from .conftest import Browser, page_of, read
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


async def job_page(browser: Browser, job_id: object, query: str = "") -> str:
    return await page_of(browser, f"/jobs/{job_id}{query}")


async def test_a_succeeded_job_shows_its_result_and_its_timeline(browser: Browser, console: Console) -> None:
    row = await put_succeeded(console.store, arguments={"note": HOSTILE})
    text = await job_page(browser, row.job_id)
    for words in ("&#34;rows&#34;: 842", "chart-waterfall", "Request again…"):
        assert words in text
    for words in ("Cancel…", "Why it ended so"):
        assert words not in text


async def test_a_dead_job_shows_its_attempts_with_their_version_and_each_error_once(
    browser: Browser, console: Console
) -> None:
    record = FlightRecord(stacks=f"thread 1 {HOSTILE}", cpu_seconds=12.5, log=f"last words {HOSTILE}")
    row = await put_dead(console.store, error=ERROR.model_copy(update={"flight_record": record}))
    versions = [
        AgentVersion(agent_id="loader-7f3a", since=ago(9000), code_version="2.4.0"),
        AgentVersion(agent_id="loader-7f3a", since=ago(1), code_version="2.4.1"),
    ]
    await console.store.statistics.put_agent_versions(versions)
    text = await job_page(browser, row.job_id)
    for words in (
        'id="attempt-1"',
        'id="attempt-2"',
        "12.5 s of a processor",
        "last words",
        "2.4.0",
        "Redrive…",
        "dead: attempts used up",
        "Why it ended so",
        'href="/dead-letters/9f86d081884c"',
        'The stack is that of <a href="#attempt-2">attempt 2</a>',
        'as <a href="#attempt-2">attempt 2</a>',
    ):
        assert words in text, words
    assert text.count("line 31, in load") == 1
    assert "2.4.1" not in text
    box = text[text.index('id="explain-title"') : text.index('id="timeline-title"')]
    assert 'action="/jobs/redrive"' in box
    assert f'name="ids" value="{row.job_id}"' in box
    assert "warrener dead-letters" not in box, "a button stands for the command"
    timeline = await read(browser, f"/jobs/{row.job_id}/timeline")
    assert [each["kind"] for each in timeline["rows"]][:2] == ["request", "wait"]
    assert timeline["state"] == JobState.DEAD


async def test_a_stack_keeps_its_indentation_and_a_cut_is_noted_before_it(
    browser: Browser, console: Console
) -> None:
    stacks = ("  File a\n    load()\n\n", "x" * 17_000)
    errors = [ERROR.model_copy(update={"stack": stack}) for stack in stacks]
    short, long = [
        await job_page(browser, (await put_dead(console.store, error=error)).job_id) for error in errors
    ]
    assert '<pre class="code" tabindex="0">  File a\n    load()</pre>' in short
    assert 0 < long.index("1\u202f000 characters before these are not shown") < long.index("x" * 16_000)


async def test_a_running_job_shows_progress_checkpoint_and_what_happens_now(
    browser: Browser, console: Console
) -> None:
    row = await put_running(console.store, progress=0.42, progress_note=f"rows {HOSTILE}")
    saved = CheckpointRow(job_id=row.job_id, attempt=1, number=3, state={"line": HOSTILE}, saved_at=ago(10))
    await console.store.keep_checkpoints([saved])
    text = await job_page(browser, row.job_id)
    for words in ("42 %", "Checkpoint 3", "Cancel…"):
        assert words in text
    assert (await read(browser, f"/jobs/{row.job_id}"))["explanation"]["cause"] == "broker_unreachable"


async def test_log_lines_are_shown_by_attempt_and_escaped(browser: Browser, console: Console) -> None:
    row = await put_dead(console.store)
    await put_lines(console.store, row.job_id, 1, "first try", f"tag {HOSTILE}")
    await put_lines(console.store, row.job_id, 2, "second try")
    newest, first = await job_page(browser, row.job_id), await job_page(browser, row.job_id, "?log=1")
    assert ("second try" in newest, "first try" in newest) == (True, False)
    assert "first try" in first
    assert "tag &lt;script&gt;" in first
    log = await read(browser, f"/jobs/{row.job_id}/logs?attempt=1")
    assert [line["text"] for line in log["lines"]] == ["first try", f"tag {HOSTILE}"]
    assert log["complete"] is True
    assert (await browser.get(f"/jobs/{row.job_id}?log=x")).status_code == 400


async def test_parent_children_and_the_jobs_of_a_redrive_lead_to_each_other(
    browser: Browser, console: Console
) -> None:
    store = console.store
    parent = await put_succeeded(store, 200, job_type="import")
    dead = await put_dead(store, 100, parent_id=parent.job_id)
    new = await put_queued(store, 5, parent_id=parent.job_id)
    selection = {"selection": {"job_ids": [str(dead.job_id)]}}
    moments = dict.fromkeys(("requested_at", "started_at", "updated_at"), ago(5))
    redrive = redrive_row(request=selection, reason=f"mended {HOSTILE}", wake_at=ago(-60), **moments)
    await store.dead_letter_store.save_redrive(redrive)
    of_job = DeadLetterFilter(states=(), job_ids=(dead.job_id,))
    open_one = (await store.dead_letter_store.list_dead_letters(of_job))[0]
    claimed = replace(open_one, state=DeadLetterState.REDRIVEN, redrive_id=redrive.redrive_id)
    claimed = replace(claimed, redriven_as=new.job_id, redriven_at=ago(4))
    transition = DeadLetterTransition(open_one.state, claimed)
    await store.dead_letter_store.save_redrive(replace(redrive, version=2), [transition])
    pages = {row.job_id: await job_page(browser, row.job_id) for row in (dead, new, parent)}
    for shown, address in (
        (dead, f"/jobs/{new.job_id}"),
        (dead, f"/redrives/{redrive.redrive_id}"),
        (new, f"/jobs/{dead.job_id}"),
        (new, f"/jobs/{parent.job_id}"),
        (parent, f"/jobs/{dead.job_id}"),
        (parent, f"/jobs?parent={parent.job_id}"),
    ):
        assert f'href="{address}"' in pages[shown.job_id]


async def test_a_part_of_an_id_leads_to_the_job(browser: Browser, console: Console) -> None:
    row = await put_queued(console.store, idempotency_key="order-17")
    for text in (str(row.job_id)[-8:], "order-17"):
        answer = await browser.get(f"/jobs/{text}")
        assert (answer.status_code, answer.headers["location"]) == (303, f"/jobs/{row.job_id}")
    assert (await read(browser, f"/jobs/{str(row.job_id)[-8:]}"))["state"] == "queued"


async def test_a_whole_id_stands_for_itself_unless_it_is_the_key_of_a_job(console: Console) -> None:
    """Services know more jobs than the store, and refuse those that they do not know."""
    key, unknown = uuid4(), uuid4()
    row = await put_queued(console.store, idempotency_key=str(key))
    for text, expected in ((str(key), row.job_id), (str(unknown), unknown)):
        assert await find_job_id(console.store, text) == expected
    with pytest.raises(CommandError, match="no job has it"):
        await find_job_id(console.store, "nobody")


@pytest.mark.parametrize("text", ["01936f2e-8a3b-7c4d-9e5f-0123456789ab", "nobody", HOSTILE])
async def test_an_unknown_job_is_not_found(browser: Browser, text: str) -> None:
    answer = await browser.get(f"/jobs/{text.replace('/', '%2F')}")
    assert (answer.status_code, HOSTILE in answer.text) == (404, False)


async def test_what_is_too_long_for_a_page_is_cut(browser: Browser, console: Console) -> None:
    row = await put_waiting(console.store, arguments={"rows": ["x" * 100] * 9000})
    await put_lines(console.store, row.job_id, 1, *(["y" * 5000] * 400))
    text = await job_page(browser, row.job_id)
    assert len(text) < 700_000
    assert "characters in all; the API has them" in text
    assert "4\u202f000 characters more" in text


async def test_the_trace_has_a_link_where_an_address_is_set(browser: Browser, console: Console) -> None:
    trace_id = "5b8efff798038103d269b633813fc60c"
    row = await put_queued(console.store, traceparent=f"00-{trace_id}-eee19b7ec3c10a01-01")
    assert "jaeger" not in await job_page(browser, row.job_id)
    address = "https://jaeger.example/trace/{trace_id}"
    console.settings = console.settings.model_copy(update={"console_trace_url": address})
    assert f'href="https://jaeger.example/trace/{trace_id}"' in await job_page(browser, row.job_id)


def test_hidden_arguments_are_those_of_the_job_that_is_requested_again() -> None:
    original = {"user": "ann", "password": "hunter2", "in": [{"api_key": "k"}], "old": 1}
    given = {"user": "bob", "password": HIDDEN, "in": [{"api_key": HIDDEN}], "new": HIDDEN}
    restored = {"user": "bob", "password": "hunter2", "in": [{"api_key": "k"}], "new": HIDDEN}
    assert restore_hidden(given, original) == restored
    envelope = {MARK: {"key": "k1", "nonce": "AAAA", "data": "AAAA"}}
    words = {MARK: "encrypted (key k1)"}
    assert restore_hidden(words, envelope) == envelope
    for other in (words | {"new": 1}, {MARK: "encrypted (key k2)"}, {MARK: None}):
        assert restore_hidden(other, {"user": "ann"}) == other


# -- what all pages share of the broker --------------------------------------------------------------------


class CountingInspector:
    broker = "RabbitMQ 4.3.0"

    def __init__(self) -> None:
        self.queried: list[str] = []

    async def queue(self, name: str) -> QueueInfo:
        self.queried.append(name)
        return QueueInfo(3, 1)


@pytest.mark.parametrize("is_away", [False, True], ids=["a broker", "a broker that is away"])
async def test_all_pages_share_one_connection_and_its_answers(
    monkeypatch: pytest.MonkeyPatch,
    is_away: bool,  # noqa: FBT001 - of the table
) -> None:
    opened: list[str] = []
    counting = CountingInspector()

    @asynccontextmanager
    async def open_counting(url: str, namespace: str) -> AsyncGenerator[CountingInspector]:
        opened.append(url)
        if is_away:
            raise ConnectionRefusedError("no")
        yield counting

    monkeypatch.setattr("warrener.operations.system.open_inspector", open_counting)
    inspector = SharedInspector(ResolvedEndpoints("amqp://here/", "", "", from_up=False))
    facts = await asyncio.gather(*(inspector.query(["default"]) for _ in range(20)))
    if is_away:
        assert {fact.trouble for fact in facts} == {"no"}
    else:
        assert len(counting.queried) == 3, "requests, reports, and the queue of the job"
        assert {fact.queues["default"] for fact in facts} == {QueueInfo(3, 1)}
        assert (await inspector.query(["mails"])).queues.keys() == {"default", "mails"}
    await inspector.close()
    assert len(opened) == 1
