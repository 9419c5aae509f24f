"""Each role tries each action and page of the installed console: allowed or refused as the table in the docs
says."""

import re
from pathlib import Path

import httpx
import pytest
from services.console.tests.web.conftest import OpenBrowser

from warrener.operations.roles import Role
from warrener.web.access.sessions import SessionGuard
from warrener.web.console import Console
from warrener.web.site import installed_site
from warrener_store.audit.rows import AuditOutcome

from .conftest import bearer, csrf_of, sign_in

TABLE = Path(__file__).parents[5] / "docs" / "reference" / "console-access.md"
_ROW = re.compile(r"^\| `([\w.\-]+)` \| `(\S+)` \| (\w+) \| (\w+) \| (\w+) \| \w+ \|$", re.MULTILINE)
RIGHTS = {
    (name, path): dict(zip(Role, rights, strict=True))
    for name, path, *rights in _ROW.findall(TABLE.read_text(encoding="utf-8"))
}
UNKNOWN_FIELD = {"a field of no action": "1"}
"""An allowed action refuses this body, so that nothing is done."""


@pytest.fixture
def browser(open_browser: OpenBrowser, guard: SessionGuard) -> httpx.AsyncClient:
    return open_browser(installed_site(), guard)


def test_the_table_has_all_actions() -> None:
    assert {name for name, _ in RIGHTS} == set(installed_site().actions)


@pytest.mark.parametrize("role", list(Role))
async def test_each_action_is_allowed_or_refused_by_the_table(
    browser: httpx.AsyncClient, console: Console, role: Role
) -> None:
    await sign_in(browser, role.value)
    token = csrf_of((await browser.get("/about")).text)
    refused: list[str] = []
    for (name, pattern), rights in RIGHTS.items():
        path = re.sub(r"\{[^}]+\}", "x", pattern)
        headers = {"X-CSRF-Token": token}
        of_api = await browser.post(f"/api/v1{path}", json=UNKNOWN_FIELD, headers=headers)
        of_form = await browser.post(path, data={"csrf_token": token, **UNKNOWN_FIELD})
        if rights[role] == "yes":
            assert (of_api.status_code, of_form.status_code) == (422, 303), name
        else:
            assert (of_api.status_code, of_form.status_code) == (403, 403), name
            assert f"for {name}, got {role}" in of_api.json()["detail"]
            refused += [name, name]
    records = await console.store.audit_records(limit=1000)
    assert sorted(record.action for record in records) == sorted(refused)
    assert {record.outcome for record in records} <= {AuditOutcome.FORBIDDEN}
    assert {record.actor for record in records} <= {role.value}


@pytest.mark.parametrize("role", list(Role))
async def test_each_page_is_shown_to_the_roles_that_may_see_it(
    browser: httpx.AsyncClient, role: Role
) -> None:
    for page in installed_site().pages.values():
        path = re.sub(r"\{[^}]+\}", "x", page.path)
        answer = await browser.get(path, headers=bearer(role.value))
        assert (answer.status_code == 403) is not role.allows(page.role), page.name
        assert answer.status_code in {200, 303, 307, 403, 404, 400}, (page.name, answer.status_code)


async def test_nobody_reads_or_acts_without_signing_in(browser: httpx.AsyncClient) -> None:
    document = (await browser.get("/api/v1/openapi.json", headers=bearer("viewer"))).json()
    for pattern, methods in document["paths"].items():
        path = re.sub(r"\{[^}]+\}", "x", pattern)
        for method in methods:
            answer = await browser.request(
                method.upper(), path, json=UNKNOWN_FIELD if method == "post" else None
            )
            assert answer.status_code == 401, (method, path)
    for page in installed_site().pages.values():
        path = re.sub(r"\{[^}]+\}", "x", page.path)
        answer = await browser.get(path)
        assert (answer.status_code, answer.headers["location"].partition("=")[0]) == (303, "/login?next")
    live = await browser.get("/live", params={"page": "/jobs"})
    assert live.status_code == 401
