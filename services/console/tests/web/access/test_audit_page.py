"""The audit log on its page and in the API: for admins, in pages, escaped and without secrets."""

from dataclasses import replace
from uuid import UUID

import httpx
import pytest
from services.console.tests.web.conftest import OpenBrowser
from tests.store_rows import after, recorded_action

from warrener.web.access.sessions import SessionGuard
from warrener.web.console import Console
from warrener.web.site import installed_site
from warrener_store.audit.rows import AuditOutcome

from .conftest import bearer, sign_in

SCRIPT = "<script>alert(1)</script>"


@pytest.fixture
def browser(open_browser: OpenBrowser, guard: SessionGuard) -> httpx.AsyncClient:
    return open_browser(installed_site(), guard)


async def test_an_empty_log_has_its_words(browser: httpx.AsyncClient) -> None:
    page = await browser.get("/audit", headers=bearer("admin"))
    assert "Nobody has called an action yet." in page.text
    filtered = await browser.get("/audit?actor=ada", headers=bearer("admin"))
    assert "No record matches." in filtered.text


@pytest.mark.parametrize("role", ["viewer", "operator"])
async def test_it_is_for_admins(browser: httpx.AsyncClient, role: str) -> None:
    page = await browser.get("/audit", headers=bearer(role))
    assert page.status_code == 403
    assert "expected the role admin" in page.text
    assert 'href="/audit" data-key' not in page.text
    of_api = await browser.get("/api/v1/audit", headers=bearer(role))
    assert (of_api.status_code, of_api.json()["detail"]) == (
        403,
        f"expected the role admin for /audit, got {role}; an admin can change it",
    )


async def test_records_come_in_pages_and_by_filter(browser: httpx.AsyncClient, console: Console) -> None:
    for number in range(60):
        record = recorded_action(
            f"job-{number}", record_id=UUID(int=number + 1), recorded_at=after(number // 7)
        )
        await console.store.record_action(replace(record, actor="ada" if number % 2 else "grace"))
    await console.store.complete_action(UUID(int=60), AuditOutcome.REFUSED, "the job is over", after(100))
    first = (await browser.get("/api/v1/audit", headers=bearer("admin"))).json()
    rest = (
        await browser.get("/api/v1/audit", params={"after": first["next"]}, headers=bearer("admin"))
    ).json()
    subjects = [record["subject"] for record in first["records"] + rest["records"]]
    assert subjects == [f"job-{number}" for number in reversed(range(60))]
    assert rest["next"] is None
    assert (first["records"][0]["outcome"], first["records"][0]["sentence"]) == ("refused", "the job is over")
    page = await browser.get("/audit", params={"actor": "ada", "subject": "job-59"}, headers=bearer("admin"))
    assert 'href="/jobs/job-59"' in page.text
    assert page.text.count('id="record-') == 1
    older = await browser.get("/audit", headers=bearer("admin"))
    assert "Older" in older.text
    wrong = await browser.get("/audit?after=nonsense", headers=bearer("admin"))
    assert wrong.status_code == 400
    long = await browser.get(f"/audit?actor={'x' * 600}", headers=bearer("admin"))
    assert long.status_code == 400


async def test_what_people_wrote_is_escaped_and_without_secrets(
    browser: httpx.AsyncClient, console: Console
) -> None:
    record = recorded_action(SCRIPT, actor=SCRIPT, action=SCRIPT, reason=f"{SCRIPT} password=hunter2")
    await console.store.record_action(record)
    page = await browser.get("/audit", headers=bearer("admin"))
    assert "<script>alert" not in page.text
    assert page.text.count("&lt;script&gt;") >= 4
    assert "hunter2" not in page.text
    of_api = await browser.get("/api/v1/audit", headers=bearer("admin"))
    assert "hunter2" not in of_api.text


async def test_a_person_sees_the_way_out(browser: httpx.AsyncClient) -> None:
    await sign_in(browser, "admin")
    page = await browser.get("/audit")
    assert "Sign out" in page.text
    assert 'href="/audit" data-key' in page.text
