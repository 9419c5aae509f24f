"""What holds of every page: it has no error, weighs little, fits a phone, and axe finds nothing serious. The
pictures of the docs show each on a desk and on a phone: `make screenshots`."""

import os
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import pytest
from axe_playwright_python.sync_playwright import Axe  # type: ignore[import-untyped]  # without stubs
from PIL import Image
from tests.console.conftest import NewContext, PageWatch
from tests.console.site import LiveSite

if TYPE_CHECKING:
    from playwright.sync_api import Page

Colour = tuple[int, tuple[int, int, int, int]]
MAX_WEIGHT = 200_000  # bytes on the wire of a page with all that it loads
_WEIGHT = """[...performance.getEntriesByType("navigation"), ...performance.getEntriesByType("resource")]
    .reduce((sum, one) => sum + one.transferSize, 0)"""
PHONE: Any = {"width": 390, "height": 844}
TABLET: Any = {"width": 768, "height": 1024}
DESKTOP: Any = {"width": 1280, "height": 860}
FOLDER = os.environ.get("WARRENER_SCREENSHOTS")


VISITS = {
    "overview": "/",
    "search": "/search?q=import",
    "jobs": "/jobs",
    "jobs-dead": "/jobs?state=dead",
    "job-done": "/jobs/{done}",
    "job-retried": "/jobs/{retried}",
    "job-running": "/jobs/{running}",
    "job-waiting": "/jobs/{waiting}",
    "job-dead": "/jobs/{dead}",
    "workflow-map": "/jobs/{exported}",
    "workflow-undone": "/jobs/{undone}",
    "job-request": "/jobs/new?type=import.rows",
    "job-types": "/job-types",
    "job-type": "/job-types/flights.load?window=week",
    "schedules": "/schedules",
    "schedule": "/schedules/{schedule}",
    "schedule-edit": "/schedules/{schedule}/edit",
    "schedule-new": "/new-schedule",
    "backfill": "/schedules/{schedule}/backfill",
    "dead-letters": "/dead-letters",
    "dead-letter-cause": "/dead-letters/{cause}",
    "redrives": "/redrives",
    "incidents": "/incidents",
    "incident": "/incidents/{incident}",
    "agents": "/agents",
    "agent": "/agents/{agent}",
    "queues": "/queues",
    "queue": "/queues/{queue}",
    "parked": "/parked",
    "breakers": "/breakers",
    "gates": "/gates",
    "audit": "/audit",
    "about": "/about",
}
"""Paths of pages by the names of their pictures; `{dead}` stands for that sample."""
EACH = pytest.mark.parametrize("visit", VISITS)


def open_visit(page: "Page", visit: str, site: LiveSite) -> None:
    """Open the page and wait for its heading: an open stream of changes never lets the network rest."""
    answer = page.goto(VISITS[visit].format(**site.samples))
    assert answer is not None
    assert answer.status == 200, f"{visit}: {answer.status}"
    page.locator("h1").first.wait_for()


@EACH
def test_it_opens_without_an_error_and_weighs_little(
    visit: str, site: LiveSite, new_context: NewContext
) -> None:
    page = new_context(base_url=site.address).new_page()
    watch = PageWatch(page, site.address)
    open_visit(page, visit, site)
    page.wait_for_load_state("load")
    assert watch.faults == []
    assert 0 < page.evaluate(_WEIGHT) <= MAX_WEIGHT


@EACH
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_serious(visit: str, scheme: str, site: LiveSite, new_context: NewContext) -> None:
    # axe is put into the page, which the page's own policy forbids to everybody else.
    page = new_context(base_url=site.address, color_scheme=scheme, bypass_csp=True).new_page()
    open_visit(page, visit, site)
    axe: Any = Axe()
    found: list[dict[str, Any]] = axe.run(page).response["violations"]
    serious = [
        f"{one['id']}: {one['help']}: {one['nodes'][0]['html'][:200]}"
        for one in found
        if one["impact"] in {"serious", "critical"}
    ]
    assert serious == []


@EACH
@pytest.mark.parametrize("place", [PHONE, TABLET], ids=["phone", "tablet"])
def test_it_fits_a_phone_and_a_tablet(
    visit: str, place: Any, site: LiveSite, new_context: NewContext
) -> None:
    page = new_context(base_url=site.address, viewport=place, is_mobile=True, has_touch=True).new_page()
    open_visit(page, visit, site)
    width = page.evaluate("document.documentElement.scrollWidth")
    assert width <= place["width"], f"{visit} scrolls sideways: {width} px"


@EACH
def test_it_is_a_plain_page_without_scripts(visit: str, site: LiveSite, new_context: NewContext) -> None:
    page = new_context(base_url=site.address, java_script_enabled=False).new_page()
    open_visit(page, visit, site)
    assert page.locator("main").inner_text().strip()
    assert page.get_by_role("link", name="Refresh").count() >= 1


@EACH
@pytest.mark.skipif(not FOLDER, reason="pictures are made by make screenshots")
@pytest.mark.parametrize("size", ["desktop", "phone"])
def test_a_picture_of_the_page(visit: str, size: str, site: LiveSite, new_context: NewContext) -> None:
    is_phone = size == "phone"
    viewport = PHONE if is_phone else DESKTOP
    looks = {"color_scheme": "light", "reduced_motion": "reduce", "viewport": viewport}
    page = new_context(base_url=site.address, **looks, is_mobile=is_phone, has_touch=is_phone).new_page()
    open_visit(page, visit, site)
    folder = Path(str(FOLDER))
    folder.mkdir(parents=True, exist_ok=True)
    is_whole = not is_phone and not visit.startswith("workflow-")  # below its graph it is the page of a job
    picture = Image.open(BytesIO(page.screenshot(full_page=is_whole)))
    with_few_colours(picture.convert("RGB")).save(folder / f"{visit}-{size}-light.png", optimize=True)
    assert picture.width == viewport["width"]


def with_few_colours(picture: Image.Image) -> Image.Image:
    """Reduce to 256 colours, for a third of the size. Each is the most frequent one that it stands for."""
    few = picture.quantize(256, method=Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE)
    index = Image.frombytes("L", few.size, few.tobytes())
    found = Image.merge("RGBA", (*picture.split(), index)).getcolors(picture.width * picture.height)
    palette = [0] * 768
    for _, (red, green, blue, number) in sorted(cast("list[Colour]", found)):
        palette[3 * number : 3 * number + 3] = red, green, blue
    few.putpalette(palette)
    return few
