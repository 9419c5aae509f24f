"""The application: pages, actions in both forms, and errors that say what to do."""

from typing import Any
from zoneinfo import ZoneInfo

import httpx
import pytest
from fastapi import APIRouter
from pydantic import Field

from warrener.errors import CommandError, ExitCode, NothingFound
from warrener.operations.noun import ActionBody, Call, Outcome, Verb
from warrener.operations.roles import Principal, Role
from warrener.web.access.guard import OpenGuard
from warrener.web.api import ConsoleOfApp
from warrener.web.console import Console
from warrener.web.page import PageRequest, View, page
from warrener.web.site import Action, Site
from warrener_store.audit.rows import AuditOutcome

from .conftest import OpenBrowser


class Greeting(ActionBody):
    name: str


class ReasonedGreeting(Greeting):
    reason: str = Field()


async def greet(call: Call[Any]) -> Outcome:
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
        case _:
            facts: list[tuple[str, Any]] = [("q", request.query.get("q", "")), ("zone", request.zone.key)]
            return View(f"Place {request.path['place']}", {"facts": facts})


class GuardOf(OpenGuard):
    """Everybody has one role."""

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


@pytest.fixture
def guard() -> GuardOf:
    return GuardOf(Role.OPERATOR)


@pytest.fixture
def places(open_browser: OpenBrowser, guard: GuardOf) -> httpx.AsyncClient:
    return open_browser(SITE, guard)


async def test_a_page_is_shown_whole_or_in_part(places: httpx.AsyncClient) -> None:
    whole = await places.get("/places/berlin?q=<b>")
    assert whole.status_code == 200
    assert "<!doctype html>" in whole.text
    assert "<h1>Place berlin</h1>" in whole.text
    assert "&lt;b&gt;" in whole.text, "expected texts of others to be escaped"
    part = await places.get("/places/berlin", headers={"HX-Request": "true"})
    assert "<h1>Place berlin</h1>" in part.text
    assert "<html" not in part.text


async def test_times_are_in_the_zone_of_the_reader(places: httpx.AsyncClient) -> None:
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
async def test_an_error_is_a_page(places: httpx.AsyncClient, q: str, status: int, sentence: str) -> None:
    answer = await places.get("/places/berlin", params={"q": q})
    assert answer.status_code == status
    assert sentence in answer.text
    assert "secret details" not in answer.text
    assert answer.headers["content-security-policy"]


async def test_an_address_of_nothing_is_a_page_too(places: httpx.AsyncClient) -> None:
    answer = await places.get("/nowhere")
    assert answer.status_code == 404
    assert "No page has this address" in answer.text
    of_api = await places.get("/api/v1/nowhere")
    assert of_api.status_code == 404
    assert of_api.json()["detail"] == "No page has this address."


async def test_a_form_answers_with_its_page(places: httpx.AsyncClient, console: Console) -> None:
    answer = await places.post(
        "/places/berlin/greet",
        data={"csrf_token": "open", "name": "Grace", "reason": "why not"},
        headers={"Referer": "http://127.0.0.1:8765/places/berlin?q=1"},
    )
    assert (answer.status_code, answer.headers["location"]) == (303, "/places/berlin?q=1")
    shown = await places.get(answer.headers["location"])
    assert "berlin greets Grace" in shown.text
    assert "berlin greets Grace" not in (await places.get("/places/berlin")).text, "expected it once"
    (record,) = await console.store.audit_records()
    assert (record.action, record.subject, record.reason) == ("place.greet", "berlin", "why not")
    assert (record.actor, record.role, record.outcome) == ("ada", "operator", AuditOutcome.ACCEPTED)


async def test_a_form_with_scripts_answers_with_a_notice(places: httpx.AsyncClient) -> None:
    answer = await places.post(
        "/places/berlin/greet", data={"csrf_token": "open", "name": "nobody"}, headers={"HX-Request": "true"}
    )
    assert "refused: nobody is there" in answer.text
    assert "<html" not in answer.text
    assert answer.headers["hx-trigger"] == "warrener:refresh"


async def test_a_form_of_another_site_is_refused(places: httpx.AsyncClient) -> None:
    answer = await places.post(
        "/places/berlin/greet",
        data={"csrf_token": "open", "name": "Grace"},
        headers={"Referer": "http://evil.example/places"},
    )
    assert answer.status_code == 403
    without = await places.post("/places/berlin/greet", data={"csrf_token": "open", "name": "Grace"})
    assert without.headers["location"] == "/"


async def test_an_action_answers_programs_in_json(places: httpx.AsyncClient) -> None:
    answer = await places.post("/api/v1/places/berlin/greet", json={"name": "Grace"})
    assert answer.json() == {
        "accepted": True,
        "sentence": "berlin greets Grace",
        "details": {"name": "Grace"},
    }
    refused = await places.post("/api/v1/places/berlin/greet", json={"name": "nobody"})
    assert (refused.status_code, refused.json()["accepted"]) == (409, False)
    wrong = await places.post("/api/v1/places/berlin/greet", json={"name": "Grace", "extra": 1})
    assert wrong.status_code == 422
    assert wrong.json()["detail"] == "body.extra: Extra inputs are not permitted, got 1"
    form = {"csrf_token": "open", "name": "Grace", "extra": "1"}
    answer = await places.post("/places/berlin/greet", data=form, headers={"HX-Request": "true"})
    assert "refused: extra: Extra inputs are not permitted, got &#39;1&#39;" in answer.text


async def test_an_action_without_a_broker_is_refused(places: httpx.AsyncClient) -> None:
    answer = await places.post("/api/v1/places/berlin/greet", json={"name": "broker"})
    assert answer.status_code == 409
    assert "expected a broker at" in answer.json()["sentence"]


async def test_an_action_that_fails_by_a_bug_is_an_error(places: httpx.AsyncClient) -> None:
    answer = await places.post("/api/v1/places/berlin/greet", json={"name": "bug"})
    assert (answer.status_code, answer.json()["detail"]) == (500, "An error of the console; its log has it.")


async def test_an_action_above_the_role_is_refused_and_recorded(
    places: httpx.AsyncClient, guard: GuardOf, console: Console
) -> None:
    answer = await places.post("/api/v1/places/berlin/erase", json={"name": "Grace", "reason": "tidy"})
    assert answer.status_code == 403
    assert "expected the role admin" in answer.json()["detail"]
    (record,) = await console.store.audit_records()
    assert (record.action, record.outcome) == ("place.erase", AuditOutcome.FORBIDDEN)
    guard.role = Role.ADMIN
    without = await places.post("/api/v1/places/berlin/erase", json={"name": "Grace", "reason": ""})
    assert "expected a reason" in without.json()["sentence"]
    with_reason = await places.post("/api/v1/places/berlin/erase", json={"name": "Grace", "reason": "tidy"})
    assert with_reason.json()["accepted"]


async def test_a_form_without_its_token_is_refused(places: httpx.AsyncClient, console: Console) -> None:
    answer = await places.post("/places/berlin/greet", data={"name": "Grace"})
    assert answer.status_code == 403
    assert not await console.store.audit_records()


async def test_reads_and_actions_are_in_the_api_document(places: httpx.AsyncClient) -> None:
    assert "now" in (await places.get("/api/v1/clock")).json()
    document = (await places.get("/api/v1/openapi.json")).json()
    assert {"/api/v1/clock", "/api/v1/places/{place}/greet"} <= set(document["paths"])
    parameters = document["paths"]["/api/v1/places/{place}/greet"]["post"]["parameters"]
    assert [one["name"] for one in parameters] == ["place"]


async def test_the_installed_site_has_its_pages(browser: httpx.AsyncClient) -> None:
    answer = await browser.get("/about")
    assert answer.status_code == 200
    assert "About this console" in answer.text
    assert (await browser.get("/health")).json() == {"status": "ok"}


@pytest.mark.parametrize(
    ("path", "status"), [("/queues/%00", 400), ("/api/v1/queues/a%20b", 404), ("/queues/%FF", 404)]
)
async def test_a_name_that_is_none_is_refused_before_anything_is_looked_up(
    browser: httpx.AsyncClient, path: str, status: int
) -> None:
    assert (await browser.get(path)).status_code == status
