"""The application: pages, actions in both forms, and errors that say what to do."""

from datetime import timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from fastapi import APIRouter
from pydantic import Field
from tests.store_rows import NOON

from warrener.errors import CommandError, ExitCode, NothingFound
from warrener.operations.noun import ActionBody, Outcome, Verb, VerbCall
from warrener.operations.roles import Principal, Role
from warrener.web.access.guard import OpenGuard
from warrener.web.api import ConsoleOfApp
from warrener.web.console import Console
from warrener.web.page import PageRequest, View, page
from warrener.web.rendering import relative_words
from warrener.web.site import Action, Site
from warrener_store.audit.rows import AuditOutcome

from .conftest import Browser, OpenBrowser


class Greeting(ActionBody):
    name: str


class ReasonedGreeting(Greeting):
    reason: str = Field()


async def greet(call: VerbCall[Any]) -> Outcome:
    name: str = call.body.name
    if name == "nobody":
        return Outcome(accepted=False, sentence="refused: nobody is there")
    if name == "broker":
        await call.backend.client()
    if name == "bug":
        raise RuntimeError("a bug")
    return Outcome(accepted=True, sentence=f"{call.key} greets {name}", details={"name": name})


async def show_about(request: PageRequest) -> View:
    match request.query.get("q"):
        case "missing":
            raise NothingFound("expected a job, got none with this id; look in the list of jobs")
        case "wrong":
            raise CommandError("limit: expected a number, got 'many'", code=ExitCode.USAGE)
        case "bug":
            raise RuntimeError("secret details")
        case "away":
            raise CommandError("expected a broker, got none", do="start one")
        case q:
            facts = [("q", q or ""), ("zone", request.zone.key)]
            return View(f"Place {request.path['place']}", {"facts": facts})


class GuardOf(OpenGuard):
    def __init__(self, role: Role) -> None:
        super().__init__("open")
        self.role = role

    async def identify(self, request: Any) -> Principal:
        return Principal("ada", self.role, "token")


router = APIRouter()


@router.get("/clock")
async def read_clock(console: ConsoleOfApp) -> dict[str, str]:
    return {"now": (await console.now()).isoformat()}


GREET = Verb(word="greet", body=Greeting, perform=greet)
ERASE = Verb(word="erase", body=ReasonedGreeting, perform=greet, role=Role.ADMIN)
SITE = Site(
    [page("/places/{place}", name="place")(show_about)],
    [Action(f"place.{one.word}", f"/places/{{place}}/{one.word}", one) for one in (GREET, ERASE)],
    [router],
)


GREET_FORM, GREET_API = "/places/berlin/greet", "/api/v1/places/berlin/greet"


@pytest.fixture
def guard() -> GuardOf:
    return GuardOf(Role.OPERATOR)


@pytest.fixture
def places(open_browser: OpenBrowser, guard: GuardOf) -> Browser:
    return open_browser(SITE, guard)


async def test_a_page_is_shown_whole_or_in_part(places: Browser) -> None:
    whole = await places.get("/places/berlin?q=<b>")
    assert whole.status_code == 200
    assert "<!doctype html>" in whole.text
    assert "<h1>Place berlin</h1>" in whole.text
    assert "&lt;b&gt;" in whole.text, "expected texts of others to be escaped"
    part = await places.get("/places/berlin", headers={"HX-Request": "true"})
    assert "<h1>Place berlin</h1>" in part.text
    assert "<html" not in part.text


async def test_times_are_in_the_zone_of_the_reader(places: Browser) -> None:
    there = await places.get("/places/berlin", headers={"Cookie": "zone=Asia/Tokyo; theme=dark"})
    assert ">Asia/Tokyo<" in there.text
    assert 'data-theme="dark"' in there.text
    for wrong in ("../../etc/passwd", "x" * 100, "No/Where"):
        answer = await places.get("/places/berlin", headers={"Cookie": f"zone={wrong}"})
        assert f">{ZoneInfo('UTC').key}<" in answer.text


@pytest.mark.parametrize(
    ("q", "status", "sentence"),
    [
        ("missing", 404, "look in the list of jobs"),
        ("wrong", 400, "limit: expected a number"),
        ("away", 503, "start one"),
        ("bug", 500, "its log has it"),
    ],
)
async def test_an_error_is_a_page(places: Browser, q: str, status: int, sentence: str) -> None:
    answer = await places.get("/places/berlin", params={"q": q})
    assert answer.status_code == status
    assert sentence in answer.text
    assert "secret details" not in answer.text
    assert answer.headers["content-security-policy"]


async def test_an_address_of_nothing_is_a_page_too(places: Browser) -> None:
    page, of_api = await places.get("/nowhere"), await places.get("/api/v1/nowhere")
    assert (page.status_code, "No page has this address" in page.text) == (404, True)
    assert (of_api.status_code, of_api.json()["detail"]) == (404, "No page has this address.")


async def test_a_form_answers_with_its_page(places: Browser, console: Console) -> None:
    fields = {"csrf_token": "open", "name": "Grace", "reason": "why not"}
    headers = {"Referer": "http://127.0.0.1:8765/places/berlin?q=1"}
    answer = await places.post(GREET_FORM, data=fields, headers=headers)
    assert (answer.status_code, answer.headers["location"]) == (303, "/places/berlin?q=1")
    shown = await places.get(answer.headers["location"])
    assert "berlin greets Grace" in shown.text
    assert "berlin greets Grace" not in (await places.get("/places/berlin")).text, "expected it once"
    without_referer = await places.post(GREET_FORM, data={**fields, "name": "nobody"})
    assert without_referer.headers["location"] == "/"
    _, record = await console.store.audit_records()
    assert (record.action, record.subject, record.reason) == ("place.greet", "berlin", "why not")
    assert (record.actor, record.role, record.outcome) == ("ada", "operator", AuditOutcome.ACCEPTED)


async def test_a_form_with_scripts_answers_with_a_notice(places: Browser) -> None:
    fields, headers = {"csrf_token": "open", "name": "nobody"}, {"HX-Request": "true"}
    answer = await places.post(GREET_FORM, data=fields, headers=headers)
    assert "refused: nobody is there" in answer.text
    assert "<html" not in answer.text
    assert answer.headers["hx-trigger"] == "warrener:refresh"
    answer = await places.post(GREET_FORM, data={**fields, "extra": "1"}, headers=headers)
    assert "refused: extra: Extra inputs are not permitted, got &#39;1&#39;" in answer.text


async def test_an_action_answers_programs_in_json(places: Browser) -> None:
    answer = await places.post(GREET_API, json={"name": "Grace"})
    sentence, details = "berlin greets Grace", {"name": "Grace"}
    assert answer.json() == {"accepted": True, "sentence": sentence, "details": details}


@pytest.mark.parametrize(
    ("body", "status", "field", "sentence"),
    [
        ({"name": "nobody"}, 409, "sentence", "refused: nobody is there"),
        ({"name": "broker"}, 409, "sentence", "expected a broker at"),
        ({"name": "bug"}, 500, "detail", "An error of the console; its log has it."),
        ({"name": "Grace", "extra": 1}, 422, "detail", "body.extra: Extra inputs are not permitted, got 1"),
    ],
    ids=["refused", "no broker", "a bug", "an unknown field"],
)
async def test_an_action_that_cannot_be_is_refused_in_words(
    places: Browser, body: dict[str, Any], status: int, field: str, sentence: str
) -> None:
    answer = await places.post(GREET_API, json=body)
    assert answer.status_code == status
    assert answer.json()[field].startswith(sentence)


async def test_an_action_that_needs_a_reason_is_refused_without_one(places: Browser, guard: GuardOf) -> None:
    guard.role = Role.ADMIN
    for reason, accepted in (("", False), ("tidy", True)):
        body = {"name": "Grace", "reason": reason}
        answer = (await places.post("/api/v1/places/berlin/erase", json=body)).json()
        assert (answer["accepted"], "expected a reason" in answer["sentence"]) == (accepted, not accepted)


async def test_reads_and_actions_are_in_the_api_document(places: Browser) -> None:
    assert "now" in (await places.get("/api/v1/clock")).json()
    paths = (await places.get("/api/v1/openapi.json")).json()["paths"]
    assert {"/api/v1/clock", GREET_API.replace("berlin", "{place}")} <= set(paths)
    parameters = paths["/api/v1/places/{place}/greet"]["post"]["parameters"]
    assert [one["name"] for one in parameters] == ["place"]


async def test_the_installed_site_has_its_pages(browser: Browser) -> None:
    assert "About this console" in (await browser.get("/about")).text
    assert (await browser.get("/health")).json() == {"status": "ok"}
    # A name that is none is refused before anything is looked up.
    for path, status in (("/queues/%00", 400), ("/api/v1/queues/a%20b", 404), ("/queues/%FF", 404)):
        assert (await browser.get(path)).status_code == status


@pytest.mark.parametrize(
    ("gone", "words"),
    [
        *((0.4, "now"), (3.2, "3 s ago"), (59, "59 s ago"), (301, "5 min ago"), (7800, "2 h 10 min ago")),
        *((-90, "in 1 min"), (-90000, "in 1 d 1 h")),
    ],
)
def test_moments_are_written_in_few_words(gone: float, words: str) -> None:
    assert relative_words(NOON, NOON + timedelta(seconds=gone)) == words
