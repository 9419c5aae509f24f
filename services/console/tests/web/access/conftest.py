"""Consoles that people sign in to."""

from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path
from typing import Any

import httpx
import pytest
from services.console.tests.web.conftest import Browser, OpenBrowser

from warrener.operations.noun import ActionBody, Outcome, Verb, VerbCall
from warrener.operations.roles import Role
from warrener.web.access.sessions import SessionGuard
from warrener.web.access.signing import Signer
from warrener.web.access.tokens import make_token
from warrener.web.console import Console
from warrener.web.page import PageRequest, View, page
from warrener.web.settings import ConsoleSettings
from warrener.web.site import Action, Site
from warrener_store.audit.rows import AuditRecord

from .provider import Provider, serving

SECRET = b"a secret of the tests, 32 bytes at least"
TOKENS = {role.value: make_token(role.value, role) for role in Role}
"""A token for each role: its secret, and its line."""


class Target(ActionBody):
    why: str = ""


async def show_about(request: PageRequest) -> View:
    facts = [("reader", request.reader.principal.role), ("q", request.query.get("q", ""))]
    return View("A place", {"facts": facts})


async def act(call: VerbCall[Target]) -> Outcome:
    return Outcome(accepted=True, sentence=f"{call.key} is done by {call.by}")


VERBS = [Verb(word=role, body=Target, perform=act, role=role) for role in Role]
SITE = Site(
    [
        page("/", name="overview")(show_about),
        page("/places/{place}", name="place")(show_about),
        page("/safe", name="safe", role=Role.ADMIN)(show_about),
    ],
    [Action(f"place.{verb.word}", f"/places/{{place}}/{verb.word}", verb) for verb in VERBS],
    [],
)


@pytest.fixture
def settings(tmp_path: Path) -> ConsoleSettings:
    file = tmp_path / "tokens"
    file.write_text("# who\n\n" + "\n".join(token.line for _, token in TOKENS.values()) + "\n")
    return ConsoleSettings(console_tokens_file=file, console_login_limit=3)


@pytest.fixture
def ticks() -> list[float]:
    """The monotonic clock of the guard, in its last element."""
    return [1000.0]


MakeGuard = Callable[..., SessionGuard]


@pytest.fixture
def make_guard(console: Console, settings: ConsoleSettings, ticks: list[float]) -> MakeGuard:
    def make(**changes: Any) -> SessionGuard:
        console.settings = ConsoleSettings.model_validate({**settings.model_dump(), **changes})
        return SessionGuard(console, Signer(SECRET), lambda: ticks[-1])

    return make


@pytest.fixture
def guard(make_guard: MakeGuard) -> SessionGuard:
    return make_guard()


@pytest.fixture
def browser(open_browser: OpenBrowser, guard: SessionGuard) -> Browser:
    """A browser of nobody yet."""
    return open_browser(SITE, guard)


@pytest.fixture
async def provider() -> AsyncIterator[Provider]:
    async with serving() as opened:
        yield opened


def bearer(role: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {TOKENS[role][0]}"}


def field_of(html: str, name: str, of: str = "value") -> str:
    return html.partition(f'name="{name}" {of}="')[2].partition('"')[0]


def csrf_of(html: str) -> str:
    return field_of(html, "csrf-token", "content")


async def sign_in(
    browser: Browser, role: str = "operator", *, next_path: str = "/", secret: str | None = None
) -> httpx.Response:
    """Sign in as a person does: open the form, and send it."""
    form = (await browser.get("/login", params={"next": next_path})).text
    hidden = {name: field_of(form, name) for name in ("csrf_token", "next")}
    token = TOKENS[role][0] if secret is None else secret
    return await browser.post("/login", data={**hidden, "name": role, "token": token})


async def recorded_actions(console: Console) -> Sequence[AuditRecord]:
    """The records of the audit log that are no sign-ins."""
    records = await console.store.audit_records(limit=1000)
    return [record for record in records if record.action != "console.sign_in"]
