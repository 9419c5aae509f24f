"""Dead letters by cause, and redrives with their progress."""

from dataclasses import replace
from uuid import UUID

import httpx
import pytest
from tests.store_rows import redrive_row

from warrener.operations.masking import Masker
from warrener.operations.redrives import redrive_of
from warrener.operations.roles import Role
from warrener.web.console import Console
from warrener.web.pages.dead_letters import draw_progress, progress_of
from warrener_store.dead_letters.rows import JournalEntry, RedriveState

from .conftest import OpenBrowser, page_of, read
from .stored_jobs import ERROR, FINGERPRINT, HOSTILE, ago, put_dead
from .test_app import GuardOf

OTHER = "aaaabbbbcccc"
REDRIVE_ID = UUID("019440f7-9d20-7f31-8a64-4c1be07d25a9")
REDRIVE = redrive_row(
    redrive_id=REDRIVE_ID,
    request={
        "selection": {"fingerprint": FINGERPRINT, "job_ids": []},
        "canary": 10,
        "rate": 20.0,
        "edits": {"carrier": HOSTILE},
    },
    requested_by=f"ann {HOSTILE}",
    reason=f"mended in release 42 {HOSTILE}",
    requested_at=ago(20),
    state=RedriveState.ROLLING,
    counts={"succeeded": 10, "redriven": 3, "claimed": 27},
    started_at=ago(19),
    journal=(JournalEntry(at=ago(19), by="scheduler", action=f"canary of 10 {HOSTILE}"),),
    wake_at=ago(-60),
    updated_at=ago(1),
)


async def test_without_dead_letters_the_page_says_what_would_be_there(browser: httpx.AsyncClient) -> None:
    assert "No dead letter is open." in await page_of(browser, "/dead-letters")
    assert "No redrive yet." in await page_of(browser, "/redrives")


async def test_dead_letters_are_grouped_by_cause(browser: httpx.AsyncClient, console: Console) -> None:
    for seconds in (3000, 2000, 1000):
        await put_dead(console.store, seconds)
    other = ERROR.model_copy(update={"type": "TimeoutError", "message": "no answer"})
    await put_dead(console.store, 10, job_type="mail.send", fingerprint=OTHER, error=other)
    causes = (await read(browser, "/causes"))["causes"]
    assert [(cause["fingerprint"], cause["dead_letters"]) for cause in causes] == [
        (OTHER, 1),
        (FINGERPRINT, 3),
    ]
    assert sum(causes[1]["deaths"]) == 3
    text = await page_of(browser, "/dead-letters")
    assert "chart-sparkline" in text
    assert text.index("TimeoutError") < text.index("flights.days.Damaged")
    of_type = await page_of(browser, "/dead-letters?type=mail.send")
    assert f"/dead-letters/{FINGERPRINT}" not in of_type


async def test_a_cause_shows_an_example_and_its_dead_letters_page_by_page(
    browser: httpx.AsyncClient, console: Console
) -> None:
    rows = [
        await put_dead(console.store, 10 * number + 10, arguments={"note": HOSTILE}) for number in range(60)
    ]
    text = await page_of(browser, f"/dead-letters/{FINGERPRINT}")
    assert "line 31, in load" in text
    assert "Redrive 60 jobs" in text
    assert f'href="/jobs/{rows[0].job_id}"' in text
    assert f"/dead-letters/{FINGERPRINT}?state=&amp;after=" in text
    first = await read(browser, "/dead-letters", fingerprint=FINGERPRINT)
    second = await read(browser, "/dead-letters", fingerprint=FINGERPRINT, after=first["next"])
    found = [one["job_id"] for one in first["dead_letters"] + second["dead_letters"]]
    assert found == [str(row.job_id) for row in rows]
    assert second["next"] is None


async def test_roles_decide_what_a_cause_offers(open_browser: OpenBrowser, console: Console) -> None:
    await put_dead(console.store)
    shown: dict[Role, str] = {}
    for role in Role:
        shown[role] = (await open_browser(guard=GuardOf(role)).get(f"/dead-letters/{FINGERPRINT}")).text
    assert {role for role, text in shown.items() if "Dry run" in text} == {Role.OPERATOR, Role.ADMIN}
    assert {role for role, text in shown.items() if "Drop them instead" in text} == {Role.ADMIN}


@pytest.mark.parametrize(
    ("address", "status", "sentence"),
    [
        ("/dead-letters/000000000000", 404, "no dead letter has it"),
        ("/dead-letters/none", 404, "no dead letter has it"),
        (f"/dead-letters/{FINGERPRINT}?state=odd", 400, "state: Input should be"),
        (f"/dead-letters/{FINGERPRINT}?after=x", 400, "begin at the first page"),
        ("/redrives/x", 404, "expected the id of a redrive"),
        (f"/redrives/{REDRIVE_ID}", 404, "appears once a scheduler has picked it up"),
    ],
)
async def test_a_wrong_address_is_named(
    browser: httpx.AsyncClient, console: Console, address: str, status: int, sentence: str
) -> None:
    await put_dead(console.store)
    answer = await browser.get(address)
    assert answer.status_code == status
    assert sentence in answer.text


async def test_a_redrive_shows_how_far_it_is_and_how_to_stop_it(
    browser: httpx.AsyncClient, console: Console
) -> None:
    await put_dead(console.store)
    await console.store.dead_letter_store.save_redrive(REDRIVE)
    text = await page_of(browser, f"/redrives/{REDRIVE_ID}")
    assert "10 of 40 dead letters are over" in text
    assert "canary of 10" in text
    assert f'action="/redrives/{REDRIVE_ID}/stop"' in text
    assert "resume" not in text
    assert 'data-refresh="1.0"' in text
    cause = await page_of(browser, f"/dead-letters/{FINGERPRINT}")
    assert "Redrive under way" in cause
    assert f"/redrives/{REDRIVE_ID}" in await page_of(browser, "/redrives")
    assert f"/redrives/{REDRIVE_ID}" in await page_of(browser, "/dead-letters")
    answer = await read(browser, f"/redrives/{REDRIVE_ID}")
    assert (answer["over"], answer["total"]) == (10, 40)


async def test_a_stopped_redrive_shows_its_reason_and_can_be_resumed(
    browser: httpx.AsyncClient, console: Console
) -> None:
    stopped = replace(
        REDRIVE, state=RedriveState.STOPPED, stop_reason=f"the cause came back {HOSTILE}", wake_at=None
    )
    await console.store.dead_letter_store.save_redrive(stopped)
    text = await page_of(browser, f"/redrives/{REDRIVE_ID}")
    assert "It stopped: the cause came back" in text
    assert f'action="/redrives/{REDRIVE_ID}/resume"' in text


def test_the_parts_of_a_redrive_are_all_of_it() -> None:
    parts = progress_of(redrive_of(REDRIVE, Masker(None)))
    assert [state for state, *_ in parts] == ["succeeded", "redriven", "claimed"]
    assert sum(share for *_, share in parts) == pytest.approx(1.0)
    drawn = draw_progress(redrive_of(REDRIVE, Masker(None)))
    assert drawn.drawing.count("<rect") == 3
    assert "27" in drawn.table
    nothing = draw_progress(redrive_of(replace(REDRIVE, counts={}), Masker(None)))
    assert nothing.drawing.count("<rect") == 1


async def test_an_unknown_cause_is_refused_and_a_drop_needs_a_reason(browser: httpx.AsyncClient) -> None:
    answer = await browser.post("/api/v1/dead-letters/redrive", json={"fingerprint": "nonsense"})
    assert answer.status_code == 409
    assert answer.json()["sentence"].startswith("expected one cause")
    answer = await browser.post("/api/v1/dead-letters/drop", json={"fingerprint": FINGERPRINT})
    assert "reason" in answer.text
    assert answer.status_code == 422
