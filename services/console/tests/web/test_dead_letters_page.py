"""Dead letters by cause, and redrives with their progress."""

from dataclasses import replace
from uuid import UUID

import pytest
from tests.store_rows import redrive_row

from warrener.operations.masking import Masker
from warrener.operations.redrives import redrive_of
from warrener.operations.roles import Role
from warrener.web.console import Console
from warrener.web.pages.dead_letters import progress_of
from warrener_store.dead_letters.rows import JournalEntry, RedriveState

from .conftest import Browser, OpenBrowser, page_of, read
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


async def test_dead_letters_are_grouped_by_cause(browser: Browser, console: Console) -> None:
    for seconds in (3000, 2000, 1000):
        await put_dead(console.store, seconds)
    other = ERROR.model_copy(update={"type": "TimeoutError", "message": "no answer"})
    await put_dead(console.store, 10, job_type="mail.send", fingerprint=OTHER, error=other)
    causes = (await read(browser, "/causes"))["causes"]
    found = [(cause["fingerprint"], cause["dead_letters"]) for cause in causes]
    assert found == [(OTHER, 1), (FINGERPRINT, 3)]
    assert sum(causes[1]["deaths"]) == 3
    text = await page_of(browser, "/dead-letters")
    assert "chart-sparkline" in text
    assert text.index("TimeoutError") < text.index("flights.days.Damaged")
    assert f"/dead-letters/{FINGERPRINT}" in text
    assert f"/dead-letters/{FINGERPRINT}" not in await page_of(browser, "/dead-letters?type=mail.send")


async def test_a_cause_shows_an_example_and_its_dead_letters_page_by_page(
    browser: Browser, console: Console
) -> None:
    rows = [
        await put_dead(console.store, 10 * number + 10, arguments={"note": HOSTILE}) for number in range(60)
    ]
    text = await page_of(browser, f"/dead-letters/{FINGERPRINT}")
    next_page = f"/dead-letters/{FINGERPRINT}?state=&amp;after="
    for words in ("line 31, in load", "Redrive 60 jobs", f'href="/jobs/{rows[0].job_id}"', next_page):
        assert words in text
    first = await read(browser, "/dead-letters", fingerprint=FINGERPRINT)
    second = await read(browser, "/dead-letters", fingerprint=FINGERPRINT, after=first["next"])
    found = [one["job_id"] for one in first["dead_letters"] + second["dead_letters"]]
    assert found == [str(row.job_id) for row in rows]
    assert second["next"] is None


async def test_roles_decide_what_a_cause_offers(open_browser: OpenBrowser, console: Console) -> None:
    await put_dead(console.store)
    for role in Role:
        text = await page_of(open_browser(guard=GuardOf(role)), f"/dead-letters/{FINGERPRINT}")
        assert ("Dry run" in text) is role.allows(Role.OPERATOR)
        assert ("Drop them instead" in text) is role.allows(Role.ADMIN)


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
    browser: Browser, console: Console, address: str, status: int, sentence: str
) -> None:
    await put_dead(console.store)
    answer = await browser.get(address)
    assert (answer.status_code, sentence in answer.text) == (status, True)


async def test_a_redrive_shows_how_far_it_is_and_how_it_is_stopped_and_resumed(
    browser: Browser, console: Console
) -> None:
    await put_dead(console.store)
    await console.store.dead_letter_store.save_redrive(REDRIVE)
    address = f"/redrives/{REDRIVE_ID}"
    text = await page_of(browser, address)
    for words in ("10 of 40 dead letters are over", "68 %", "canary of 10", f'action="{address}/stop"'):
        assert words in text
    assert "resume" not in text
    assert 'data-refresh="1.0"' in text
    assert "Redrive under way" in await page_of(browser, f"/dead-letters/{FINGERPRINT}")
    for page in ("/redrives", "/dead-letters"):
        assert address in await page_of(browser, page)
    answer = await read(browser, address)
    assert (answer["over"], answer["total"]) == (10, 40)
    why = f"the cause came back {HOSTILE}"
    stopped = replace(REDRIVE, version=2, state=RedriveState.STOPPED, stop_reason=why, wake_at=None)
    await console.store.dead_letter_store.save_redrive(stopped)
    text = await page_of(browser, address)
    assert "It stopped: the cause came back" in text
    assert f'action="{address}/resume"' in text


def test_the_parts_of_a_redrive_are_all_of_it() -> None:
    parts, drawn = progress_of(redrive_of(REDRIVE, Masker(None)))
    assert [(state, count) for state, _, count in parts] == [
        ("succeeded", 10),
        ("redriven", 3),
        ("claimed", 27),
    ]
    assert drawn.drawing.count("<rect") == 3
    assert "27" in drawn.table
    _, nothing = progress_of(redrive_of(replace(REDRIVE, counts={}), Masker(None)))
    assert nothing.drawing.count("<rect") == 1


async def test_an_unknown_cause_is_refused_and_a_drop_needs_a_reason(browser: Browser) -> None:
    answer = await browser.post("/api/v1/dead-letters/redrive", json={"fingerprint": "nonsense"})
    assert answer.status_code == 409
    assert answer.json()["sentence"].startswith("expected one cause")
    answer = await browser.post("/api/v1/dead-letters/drop", json={"fingerprint": FINGERPRINT})
    assert (answer.status_code, "reason" in answer.text) == (422, True)
