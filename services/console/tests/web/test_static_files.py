"""Static files: pinned where they are of others, light, and stored by browsers for good."""

import hashlib
import json
import re
from importlib.resources import files
from pathlib import Path

from warrener.web.static_files import static_files

from .conftest import Browser

MAX_PAGE_WEIGHT = 200_000  # bytes
STATIC = files("warrener.web") / "static"
OURS = {f"{name}.css" for name in ("console", "charts", "jobs", "login", "rooms", "trends")} | {
    "console.js",
    "icon.svg",
}


def test_files_of_others_are_pinned_with_their_licence() -> None:
    pinned = json.loads((STATIC / "versions.json").read_text(encoding="utf-8"))
    assert {one["file"] for one in pinned} == set(static_files()) - OURS
    for one in pinned:
        digest = hashlib.sha256(static_files()[one["file"]].body).hexdigest()
        assert digest == one["sha256"], f"expected {one['package']} {one['version']} unchanged, got {digest}"
        assert (STATIC / one["licence_file"]).read_text(encoding="utf-8")


def test_a_page_loads_each_file() -> None:
    pages = files("warrener.web") / "templates"
    templates = "".join(page.read_text(encoding="utf-8") for page in Path(str(pages)).rglob("*.html"))
    assert [name for name in static_files() if f"static('{name}')" not in templates] == []


async def test_a_page_weighs_little_with_all_its_files_of_which_none_is_inline_or_of_another_host(
    browser: Browser,
) -> None:
    page = await browser.get("/about")
    found = set(re.findall(r'(?:src|href)="(/static/[^"]+)"', page.text))
    assert {url.rpartition("/")[2] for url in found} >= {"console.css", "console.js", "htmx.js"}
    weight = len(page.content) + sum([len((await browser.get(url)).content) for url in found])
    assert weight <= MAX_PAGE_WEIGHT
    assert not re.search(
        r"<style|\sstyle=|\son[a-z]+=|<script(?![^>]*\ssrc=)|(?:src|href)=\"(?:https?:)?//", page.text
    )


async def test_a_file_is_stored_for_good_under_its_hash_alone(browser: Browser) -> None:
    file = static_files()["console.css"]
    plain = await browser.get(file.url, headers={"Accept-Encoding": "identity"})
    assert plain.content == file.body
    assert "immutable" in plain.headers["cache-control"]
    small = await browser.get(file.url, headers={"Accept-Encoding": "gzip"})
    assert (small.headers["content-encoding"], small.content) == ("gzip", file.body)
    other_version = await browser.get("/static/000000000000/console.js")
    assert (other_version.status_code, other_version.headers["cache-control"]) == (200, "no-store")
    assert (await browser.get("/static/000000000000/nothing.js")).status_code == 404
