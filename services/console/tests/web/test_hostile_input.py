"""Hostile values at each page and route: an answer of 4xx, and never an error of the console."""

import json
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from services.console.tests.web.conftest import Browser
from tests.security.attacks import attack

from warrener.web.site import installed_site

TEXTS = (
    "\0",
    "a\0b",
    "\x1b[2J\u202e",
    "\ud800",
    "9" * 400,
    "-1",
    "1e400",
    "NaN",
    "9" * 25,
    "2026-13-45T99:99:99Z",
    "P9999999999999D",
    "[" * 500,
    "'; DROP TABLE x; --",
    "%00%ff",
    "{}",
)
ESCAPES = ("%00", "%ff%fe", "%ed%a0%80", "%c0%af", "%2e%2e%2f", "%", "%zz", "%0d%0a", "a%00b", "%f0%9f")
"""Bytes of a path or a query: NUL, no UTF-8, half a surrogate pair, an overlong slash, line ends."""
SINGLE = ("%00", "%ed%a0%80", "%39" * 400)
"""Those that are tried for each parameter alone."""
VALUES: tuple[Any, ...] = (
    *TEXTS[:5],
    None,
    True,
    -1,
    10**400,
    1.5,
    [[]],
    ["\0"],
    {"\0": "\0"},
    {"a": 10**30},
)
NAMES = (
    *("q", "after", "limit", "since", "until", "state", "type", "error", "argument", "parent"),
    *("trace", "schedule", "page", "next", "range", "reason", "fingerprint", "rule", "arguments"),
    *("again", "cron"),
)
"""Parameters of pages."""
BODIES = (
    b"",
    b"\xff\xfe",
    b"{",
    b"null",
    b"[]",
    b"7",
    b'"x"',
    b'{"a": "\\ud800"}',
    b'{"reason": "\\u0000"}',
    b'{"a":' * 2000,
    b"[" * 100_000,
    b'{"reason": ' + b"9" * 5000 + b"}",
    b'{"ids": ["\\ud800"]}',
)


def quoted(text: str) -> str:
    return "".join(f"%{byte:02X}" for byte in text.encode("utf-8", "surrogatepass"))


async def refuse(browser: Browser, method: str, path: str, **options: Any) -> None:
    """Send a request. The console is well, whatever it was sent: its answer is a page, or a refusal."""
    answer = await browser.request(
        method, httpx.URL("http://127.0.0.1:8765").copy_with(raw_path=path.encode()), **options
    )
    assert answer.status_code < 500, (method, path, options, answer.text[:500])
    if path.startswith("/api/") and answer.status_code >= 400:
        body = answer.json()
        assert {"title", "status", "detail"} <= set(body) or body["accepted"] is False, (path, answer.text)


async def routes(browser: Browser, method: str) -> Iterator[tuple[str, dict[str, Any]]]:
    paths = (await browser.get("/api/v1/openapi.json")).json()["paths"]
    return ((path, found[method]) for path, found in paths.items() if method in found)


def filled_in(path: str, value: str) -> str:
    head, *parts = path.split("{")
    return head + "".join(value + part.partition("}")[2] for part in parts)


@attack("anybody at the console", "puts hostile bytes into addresses of pages", refused="an answer of 4xx")
@pytest.mark.parametrize("value", [*ESCAPES, *map(quoted, TEXTS)])
async def test_hostile_addresses_of_pages_are_answered(rooms: Browser, value: str) -> None:
    for page in installed_site().pages.values():
        await refuse(rooms, "GET", filled_in(page.path.replace(":path", ""), value))


@attack("anybody at the console", "puts hostile values into the queries of pages", refused="an answer of 4xx")
@pytest.mark.parametrize("value", [*ESCAPES, *map(quoted, TEXTS)])
async def test_hostile_queries_of_pages_are_answered(rooms: Browser, value: str) -> None:
    query = "&".join(f"{name}={value}" for name in NAMES)
    for page in installed_site().pages.values():
        await refuse(rooms, "GET", f"{filled_in(page.path.replace(':path', ''), 'x')}?{query}")
        for name in NAMES if value in SINGLE else ():
            await refuse(rooms, "GET", f"{filled_in(page.path.replace(':path', ''), 'x')}?{name}={value}")


@attack(
    "a program at the API",
    "puts hostile values into addresses and queries",
    refused="a problem document of 4xx",
)
@pytest.mark.parametrize("value", [*ESCAPES, *map(quoted, TEXTS)])
async def test_hostile_addresses_and_queries_of_the_api_are_answered(rooms: Browser, value: str) -> None:
    for path, found in await routes(rooms, "get"):
        await refuse(rooms, "GET", filled_in(path, value))
        for name in [one["name"] for one in found.get("parameters", []) if one["in"] == "query"]:
            await refuse(rooms, "GET", f"{filled_in(path, 'x')}?{name}={value}")


@attack(
    "a program at the API", "sends bodies that are no JSON, or no object", refused="a problem document of 4xx"
)
async def test_bodies_that_are_none_are_refused(rooms: Browser) -> None:
    headers = {"Content-Type": "application/json"}
    for path, _ in await routes(rooms, "post"):
        for body in BODIES:
            await refuse(rooms, "POST", filled_in(path, "x"), content=body, headers=headers)


@attack("a program at the API", "sends fields of the wrong type, NUL and huge numbers", refused="422")
async def test_hostile_fields_are_refused(rooms: Browser) -> None:
    document = (await rooms.get("/api/v1/openapi.json")).json()
    headers = {"Content-Type": "application/json"}
    for path, found in await routes(rooms, "post"):
        reference: str = found["requestBody"]["content"]["application/json"]["schema"].get("$ref", "")
        names = document["components"]["schemas"].get(reference.rpartition("/")[2], {}).get("properties", {})
        for name in names:
            for value in VALUES:
                content = json.dumps({name: value})
                await refuse(rooms, "POST", filled_in(path, "x"), content=content, headers=headers)


@attack("a browser at the console", "sends forms of hostile values", refused="an answer of 4xx or a notice")
async def test_hostile_forms_are_refused(rooms: Browser) -> None:
    kind = {"Content-Type": "application/x-www-form-urlencoded", "X-CSRF-Token": "open"}
    multipart = {"Content-Type": "multipart/form-data; boundary=x", "X-CSRF-Token": "open"}
    for action in installed_site().actions.values():
        for value in (*ESCAPES, *map(quoted, TEXTS)):
            fields = "&".join(
                f"{name}={value}"
                for name in ("reason", "ids", "query", "csrf_token", *action.verb.body.model_fields)
            )
            await refuse(rooms, "POST", filled_in(action.path, value), content=fields, headers=kind)
        for body in (b"--x\r\n", b"--x\r\nContent-Disposition: form-data\r\n\r\nx\r\n--x--", b"\0" * 100):
            await refuse(rooms, "POST", filled_in(action.path, "x"), content=body, headers=multipart)
