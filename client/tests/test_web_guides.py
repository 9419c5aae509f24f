"""The how-tos for web applications, run as written: with the broker down, and once it is there."""

import asyncio
import importlib
import json
import re
import sys
from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from warrener_client.sync import LoopThread
from warrener_client.testing import StandIn
from warrener_runtime.bus import open_bus

HOWTO = Path(__file__).parents[2] / "docs" / "howto"
NOBODY = "amqp://guest:guest@127.0.0.1:1/%2F"


def greet(given: dict[str, object]) -> str:
    return f"Hello, {given['name']}!"


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
async def lifespan(app: Any) -> AsyncGenerator[None]:
    """Start and stop an ASGI application as a server does."""
    to_app: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
    from_app: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
    running = asyncio.create_task(app({"type": "lifespan", "state": {}}, to_app.get, from_app.put))
    await to_app.put({"type": "lifespan.startup"})
    assert (await from_app.get())["type"] == "lifespan.startup.complete"
    yield
    await to_app.put({"type": "lifespan.shutdown"})
    assert (await from_app.get())["type"] == "lifespan.shutdown.complete"
    await running


async def call(app: Any, method: str, path: str, body: object = None) -> tuple[int, Any]:
    content = b"" if body is None else json.dumps(body).encode()
    sent: list[dict[str, Any]] = []

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": content, "more_body": False}

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    scope = {
        "type": "http",
        "method": method,
        "path": path,
        "query_string": b"",
        "headers": [(b"content-type", b"application/json")],
    }
    await app(scope, receive, send)
    return sent[0]["status"], json.loads(b"".join(each.get("body", b"") for each in sent[1:]))


async def test_a_fastapi_application_starts_without_its_broker(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WARRENER_BROKER_URL", NOBODY)
    app = Guide("use-with-fastapi.md", folder).load("shop_api").app
    async with lifespan(app):
        assert await call(app, "GET", "/ready") == (200, {"broker": False})
        status, answer = await call(app, "POST", "/greetings/g-1", {"name": "Ada"})
    assert status == 503
    assert "expected a broker within 2 s, got none" in answer["detail"]


async def test_a_fastapi_application_requests_a_job_once_for_one_id(
    folder: Path, monkeypatch: pytest.MonkeyPatch, vhost_url: str
) -> None:
    monkeypatch.setenv("WARRENER_BROKER_URL", vhost_url)
    app = Guide("use-with-fastapi.md", folder).load("shop_api").app
    async with StandIn(open_bus(vhost_url, name="stand-in"), {"hello.greet": greet}), lifespan(app):
        first = await call(app, "POST", "/greetings/g-1", {"name": "Ada"})
        second = await call(app, "POST", "/greetings/g-1", {"name": "Ada"})
        assert await call(app, "GET", "/ready") == (200, {"broker": True})
    assert first == second
    assert first[0] == 202


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
    stand_in = LoopThread("stand-in")
    stand_in.start()
    services = stand_in.run(_opened(vhost_url))
    try:
        status, answer = django_call(guide, "/greetings/g-1", {"name": "Ada"})
        assert status == 202, answer
        assert [request.id for request in services.requests] in ([], ["g-1"])
        guide.load("jobs").client().close()
    finally:
        stand_in.run(services.__aexit__(None, None, None))
        stand_in.stop()


async def _opened(url: str) -> StandIn:
    return await StandIn(open_bus(url, name="stand-in"), {"hello.greet": greet}).__aenter__()
