"""The how-tos for web applications, run as written: with the broker down, and once it is there."""

import importlib
import json
import re
import sys
from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

import httpx
import pytest
from tests.stand_in import greet, stand_in

from warrener_client.testing import StandIn
from warrener_runtime.bus import open_bus

HOWTO = Path(__file__).parents[2] / "docs" / "howto"
NOBODY = "amqp://guest:guest@127.0.0.1:1/%2F"


class Guide:
    """The files of a page in a folder, importable under the names that the page gives them."""

    def __init__(self, page: str, folder: Path) -> None:
        text = (HOWTO / page).read_text("utf-8")
        self.names: list[str] = []
        for name, code in re.findall(r"```python\n# (\w+)\.py\n(.*?)```", text, re.DOTALL):
            (folder / f"{name}.py").write_text(code, encoding="utf-8")
            self.names.append(name)

    def load(self, name: str) -> ModuleType:
        return importlib.import_module(name)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    before = set(sys.modules)
    yield tmp_path
    for name in set(sys.modules) - before:
        if getattr(sys.modules[name], "__file__", None) and str(tmp_path) in str(sys.modules[name].__file__):
            del sys.modules[name]


@asynccontextmanager
async def served(app: Any) -> AsyncGenerator[httpx.AsyncClient]:
    """A browser on an ASGI application, which starts and stops as on a server."""
    transport = httpx.ASGITransport(app)
    async with (
        app.router.lifespan_context(app),
        httpx.AsyncClient(transport=transport, base_url="http://shop") as browser,
    ):
        yield browser


async def test_a_fastapi_application_starts_without_its_broker(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WARRENER_BROKER_URL", NOBODY)
    app = Guide("use-with-fastapi.md", folder).load("shop_api").app
    async with served(app) as browser:
        assert (await browser.get("/ready")).raise_for_status().json() == {"broker": False}
        answer = await browser.post("/greetings/g-1", json={"name": "Ada"})
    assert answer.status_code == 503
    assert "expected a broker within 2 s, got none" in answer.json()["detail"]


async def test_a_fastapi_application_requests_a_job_once_for_one_id(
    folder: Path, monkeypatch: pytest.MonkeyPatch, vhost_url: str
) -> None:
    monkeypatch.setenv("WARRENER_BROKER_URL", vhost_url)
    app = Guide("use-with-fastapi.md", folder).load("shop_api").app
    async with StandIn(open_bus(vhost_url, name="stand-in"), {"hello.greet": greet}), served(app) as browser:
        first, second = [await browser.post("/greetings/g-1", json={"name": "Ada"}) for _ in range(2)]
        assert (await browser.get("/ready")).raise_for_status().json() == {"broker": True}
    assert first.json() == second.json()
    assert (first.status_code, second.status_code) == (202, 202)


def django_call(guide: Guide, path: str, body: object) -> tuple[int, Any]:
    django = importlib.import_module("django")
    settings = importlib.import_module("django.conf").settings
    if not settings.configured:
        settings.configure(ROOT_URLCONF="urls", SECRET_KEY="test", ALLOWED_HOSTS=["*"])
        django.setup()
    importlib.import_module("django.urls").clear_url_caches()
    guide.load("urls")
    request = (
        importlib.import_module("django.test")
        .RequestFactory()
        .post(path, data=json.dumps(body), content_type="application/json")
    )
    found = importlib.import_module("django.urls").resolve(path)
    answer = found.func(request, *found.args, **found.kwargs)
    return answer.status_code, json.loads(answer.content)


def test_a_django_view_answers_without_its_broker(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WARRENER_BROKER_URL", NOBODY)
    guide = Guide("use-with-django.md", folder)
    status, answer = django_call(guide, "/greetings/g-1", {"name": "Ada"})
    assert status == 503
    assert "expected a broker within 2 s, got none" in answer["error"]
    guide.load("jobs").client().close()


def test_a_django_view_requests_a_job(folder: Path, monkeypatch: pytest.MonkeyPatch, vhost_url: str) -> None:
    monkeypatch.setenv("WARRENER_BROKER_URL", vhost_url)
    guide = Guide("use-with-django.md", folder)
    assert guide.names == ["jobs", "views", "urls", "bookings"]
    with stand_in(vhost_url) as services:
        status, answer = django_call(guide, "/greetings/g-1", {"name": "Ada"})
        assert status == 202, answer
        assert [request.id for request in services.requests] in ([], ["g-1"])
        guide.load("jobs").client().close()
