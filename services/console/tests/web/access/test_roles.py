"""Each role tries each action and page of the installed console: allowed or refused as the table in the docs
says. The audit log is for admins, in pages, escaped and without secrets."""

import re
from dataclasses import replace
from pathlib import Path
from uuid import UUID

import pytest
from services.console.tests.web.conftest import Browser, OpenBrowser
from tests.store_rows import after, recorded_action

from warrener.operations.roles import Role
from warrener.web.access.sessions import SessionGuard
from warrener.web.console import Console
from warrener.web.site import installed_site
from warrener_store.audit.rows import AuditOutcome

from .conftest import bearer, csrf_of, recorded_actions, sign_in

TABLE = Path(__file__).parents[5] / "docs" / "reference" / "console-access.md"
_ROW = re.compile(r"^\| `([\w.\-]+)` \| `(\S+)` \| (\w+) \| (\w+) \| (\w+) \| \w+ \|$", re.MULTILINE)
RIGHTS = {
    (name, path): dict(zip(Role, rights, strict=True))
    for name, path, *rights in _ROW.findall(TABLE.read_text(encoding="utf-8"))
}
UNKNOWN_FIELD = {"a field of no action": "1"}
"""An allowed action refuses this body, so that nothing is done."""
SCRIPT = "<script>alert(1)</script>"
EACH_ROLE = pytest.mark.parametrize("role", list(Role))


def filled_in(pattern: str) -> str:
    return re.sub(r"\{[^}]+\}", "x", pattern)


@pytest.fixture
def browser(open_browser: OpenBrowser, guard: SessionGuard) -> Browser:
    return open_browser(installed_site(), guard)


def test_the_table_has_all_actions() -> None:
    assert {name for name, _ in RIGHTS} == set(installed_site().actions)


@EACH_ROLE
async def test_each_action_is_allowed_or_refused_by_the_table(
    browser: Browser, console: Console, role: Role
) -> None:
    await sign_in(browser, role.value)
    token = csrf_of((await browser.get("/about")).text)
    refused: list[str] = []
    for (name, pattern), rights in RIGHTS.items():
        path, headers = filled_in(pattern), {"X-CSRF-Token": token}
        of_api = await browser.post(f"/api/v1{path}", json=UNKNOWN_FIELD, headers=headers)
        of_form = await browser.post(path, data={"csrf_token": token, **UNKNOWN_FIELD})
        if rights[role] == "yes":
            assert (of_api.status_code, of_form.status_code) == (422, 303), name
        else:
            assert (of_api.status_code, of_form.status_code) == (403, 403), name
            assert f"for {name}, got {role}" in of_api.json()["detail"]
            refused += [name, name]
    records = await recorded_actions(console)
    assert sorted(record.action for record in records) == sorted(refused)
    assert {(record.outcome, record.actor) for record in records} <= {(AuditOutcome.FORBIDDEN, role.value)}


@EACH_ROLE
async def test_each_page_is_shown_to_the_roles_that_may_see_it(browser: Browser, role: Role) -> None:
    for page in installed_site().pages.values():
        answer = await browser.get(filled_in(page.path), headers=bearer(role.value))
        assert (answer.status_code == 403) is not role.allows(page.role), page.name
        assert answer.status_code in {200, 303, 307, 403, 404, 400}, (page.name, answer.status_code)


async def test_nobody_reads_or_acts_without_signing_in(browser: Browser) -> None:
    document = (await browser.get("/api/v1/openapi.json", headers=bearer("viewer"))).json()
    for pattern, methods in document["paths"].items():
        for method in methods:
            body = UNKNOWN_FIELD if method == "post" else None
            answer = await browser.request(method.upper(), filled_in(pattern), json=body)
            assert answer.status_code == 401, (method, pattern)
    for page in installed_site().pages.values():
        answer = await browser.get(filled_in(page.path))
        assert (answer.status_code, answer.headers["location"].partition("=")[0]) == (303, "/login?next")
    assert (await browser.get("/live", params={"page": "/jobs"})).status_code == 401


# -- the audit log -------------------------------------------------------------------------------------------


async def test_the_audit_log_is_for_admins(browser: Browser) -> None:
    for role in ("viewer", "operator"):
        page = await browser.get("/audit", headers=bearer(role))
        assert page.status_code == 403
        assert "expected the role admin" in page.text
        assert 'href="/audit" data-key' not in page.text
        of_api = await browser.get("/api/v1/audit", headers=bearer(role))
        sentence = f"expected the role admin for /audit, got {role}; an admin can change it"
        assert (of_api.status_code, of_api.json()["detail"]) == (403, sentence)
    await sign_in(browser, "admin")
    text = (await browser.get("/audit")).text
    for words in ("console.sign_in", "Sign out", 'href="/audit" data-key'):
        assert words in text
    assert "No record matches." in (await browser.get("/audit?actor=ada")).text


async def test_records_come_in_pages_and_by_filter(browser: Browser, console: Console) -> None:
    for number in range(60):
        moment, actor = after(number // 7), "ada" if number % 2 else "grace"
        record = recorded_action(f"job-{number}", record_id=UUID(int=number + 1), recorded_at=moment)
        await console.store.record_action(replace(record, actor=actor))
    await console.store.complete_action(UUID(int=60), AuditOutcome.REFUSED, "the job is over", after(100))
    browser.headers.update(bearer("admin"))
    first = (await browser.get("/api/v1/audit")).json()
    rest = (await browser.get("/api/v1/audit", params={"after": first["next"]})).json()
    subjects = [record["subject"] for record in first["records"] + rest["records"]]
    assert subjects == [f"job-{number}" for number in reversed(range(60))]
    assert rest["next"] is None
    assert (first["records"][0]["outcome"], first["records"][0]["sentence"]) == ("refused", "the job is over")
    page = await browser.get("/audit", params={"actor": "ada", "subject": "job-59"})
    assert 'href="/jobs/job-59"' in page.text
    assert page.text.count('id="record-') == 1
    assert "Older" in (await browser.get("/audit")).text
    for wrong in ("after=nonsense", f"actor={'x' * 600}"):
        assert (await browser.get(f"/audit?{wrong}")).status_code == 400


async def test_records_are_escaped_and_without_secrets(browser: Browser, console: Console) -> None:
    record = recorded_action(SCRIPT, actor=SCRIPT, action=SCRIPT, reason=f"{SCRIPT} password=hunter2")
    await console.store.record_action(record)
    page, of_api = [await browser.get(path, headers=bearer("admin")) for path in ("/audit", "/api/v1/audit")]
    assert "<script>alert" not in page.text
    assert page.text.count("&lt;script&gt;") >= 4
    assert "hunter2" not in page.text + of_api.text
