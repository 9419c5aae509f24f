"""What holds of every page: it has no error, weighs little, fits a phone, and axe finds nothing serious."""

from typing import TYPE_CHECKING, Any

import pytest
from axe_playwright_python.sync_playwright import Axe  # type: ignore[import-untyped]  # without stubs
from tests.console.conftest import NewContext, PageWatch
from tests.console.site import LiveSite
from tests.console.visits import VISITS, Visit

if TYPE_CHECKING:
    from playwright.sync_api import Page

MAX_WEIGHT = 200_000  # bytes on the wire of a page with all that it loads
_WEIGHT = """[...performance.getEntriesByType("navigation"), ...performance.getEntriesByType("resource")]
    .reduce((sum, one) => sum + one.transferSize, 0)"""
PHONE: Any = {"width": 390, "height": 844}
TABLET: Any = {"width": 768, "height": 1024}
EACH = pytest.mark.parametrize("visit", VISITS, ids=lambda visit: visit.name)


def open_visit(page: "Page", visit: Visit, site: LiveSite) -> None:
    """Open the page and wait for its heading: an open stream of changes never lets the network rest."""
    answer = page.goto(visit.path(site))
    assert answer is not None
    assert answer.status == 200, f"{visit.name}: {answer.status}"
    page.locator("h1").first.wait_for()


@EACH
def test_it_opens_without_an_error_and_weighs_little(
    visit: Visit, site: LiveSite, new_context: NewContext
) -> None:
    page = new_context(base_url=site.address).new_page()
    watch = PageWatch(page, site.address)
    open_visit(page, visit, site)
    page.wait_for_load_state("load")
    assert watch.faults == []
    assert 0 < page.evaluate(_WEIGHT) <= MAX_WEIGHT


@EACH
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_serious(
    visit: Visit, scheme: str, site: LiveSite, new_context: NewContext
) -> None:
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
    visit: Visit, place: Any, site: LiveSite, new_context: NewContext
) -> None:
    page = new_context(base_url=site.address, viewport=place, is_mobile=True, has_touch=True).new_page()
    open_visit(page, visit, site)
    width = page.evaluate("document.documentElement.scrollWidth")
    assert width <= place["width"], f"{visit.name} scrolls sideways: {width} px"


@EACH
def test_it_is_a_plain_page_without_scripts(visit: Visit, site: LiveSite, new_context: NewContext) -> None:
    page = new_context(base_url=site.address, java_script_enabled=False).new_page()
    open_visit(page, visit, site)
    assert page.locator("main").inner_text().strip()
    assert page.get_by_role("link", name="Refresh").count() >= 1
