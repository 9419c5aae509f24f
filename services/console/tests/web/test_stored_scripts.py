"""Scripts and secrets in all that users and handlers write: shown as text, and without the secrets."""

from html.parser import HTMLParser
from typing import Any

import pytest

from warrener.web.console import Console
from warrener.web.site import installed_site
from warrener_contracts.events import ErrorInfo, ErrorKind
from warrener_store.jobs.rows import JobRow

from .conftest import Browser
from .stored_jobs import FINGERPRINT, put_dead, put_lines, put_running, put_waiting

SECRET = "hunter2hunter2"
SCRIPT = "<script>alert(1)</script>\"'><img src=x onerror=alert(1)>"
HOSTILE = (
    f"<script>alert(1)</script>\"'><img src=x onerror=alert(1)></pre></td><svg/onload=alert(1)>"
    f"<a href=javascript:alert(1)>{{{{ 31337 * 31337 }}}}{{% raw %}} style='x' password={SECRET} "
    f'{{"token": "{SECRET}"}} amqp://guest:{SECRET}@broker/'
)
ERROR = ErrorInfo(kind=ErrorKind.ERROR, type=f"Boom{SCRIPT}", message=HOSTILE, stack=f"at {HOSTILE}\n" * 30)

NAMES = ["q", "type", "queue", "error", "since", "actor", "state", "before", "from", "argument", "name"]


class Scripts(HTMLParser):
    """Finds what a browser would run, and tags that no page of the console has."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.found: list[str] = []
        self.feed(html)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        fields = {name: value or "" for name, value in attrs}
        if tag in {"script", "img"} and not fields.get("src", "").startswith("/static/"):
            self.found.append(f"<{tag} {fields}>")
        for name, value in fields.items():
            is_script = name.startswith("on") or name in {"style", "hx-on"}
            is_script |= value.strip().lower().startswith("javascript:")
            if is_script or (name in {"srcdoc", "formaction"} and not value.startswith("/")):
                self.found.append(f"<{tag} {name}={value[:50]}>")


@pytest.fixture
async def jobs(console: Console) -> list[JobRow]:
    arguments = {"note": HOSTILE, SCRIPT: HOSTILE, "password": SECRET, "deep": [{"api_key": SECRET}]}
    hostile: dict[str, Any] = {"arguments": arguments, "source": f"shop {SCRIPT}", "idempotency_key": None}
    store = console.store
    running = await put_running(store, **hostile, progress=0.5, progress_note=HOSTILE)
    await put_lines(store, running.job_id, 1, HOSTILE, f"Authorization: Bearer {SECRET}")
    dead = await put_dead(store, **hostile, error=ERROR)
    waiting = await put_waiting(store, **hostile)
    return [running, dead, waiting]


async def test_scripts_of_users_and_handlers_are_text_and_their_secrets_hidden(
    browser: Browser, jobs: list[JobRow]
) -> None:
    addresses = [
        "/",
        "/jobs",
        "/jobs?state=dead",
        "/dead-letters",
        "/redrives",
        f"/dead-letters/{FINGERPRINT}",
        *(f"/jobs/{job.job_id}" for job in jobs),
        *(f"/jobs/new?from={job.job_id}{form}" for job in jobs for form in ("", "&as=json")),
    ]
    seen = 0
    for address in addresses:
        answer = await browser.get(address)
        assert answer.status_code == 200, (address, answer.text)
        assert not Scripts(answer.text).found, address
        assert SECRET not in answer.text, address
        assert str(31337 * 31337) not in answer.text
        seen += answer.text.count("&lt;script&gt;alert(1)")
        part = await browser.get(address, headers={"HX-Request": "true"})
        assert not Scripts(part.text).found, address
    assert seen > 10, "expected the texts to be shown"


async def test_the_api_hides_the_secrets_too(browser: Browser, jobs: list[JobRow]) -> None:
    document = (await browser.get("/api/v1/openapi.json")).json()
    tried = 0
    for pattern, methods in document["paths"].items():
        if "get" not in methods:
            continue
        for job in jobs:
            path = pattern.replace("{job_id}", str(job.job_id)).replace("{fingerprint}", FINGERPRINT)
            answer = await browser.get(path)
            assert SECRET not in answer.text, path
            kind = answer.headers["content-type"].partition(";")[0]
            assert kind in {"application/json", "application/problem+json", "text/plain"}  # metrics
            tried += answer.status_code == 200
            if path == pattern:
                break
    assert tried > 5


async def test_addresses_and_queries_of_others_are_text(browser: Browser, jobs: list[JobRow]) -> None:
    assert jobs
    for page in installed_site().pages.values():
        path = page.path
        if "{" in path:
            path = path[: path.index("{")] + "%3Cscript%3Ealert(1)%3C/script%3E"
        for query in ({}, dict.fromkeys(NAMES, SCRIPT)):
            answer = await browser.get(path, params=query)
            assert not Scripts(answer.text).found, path
            assert answer.status_code < 500, (path, answer.status_code)
