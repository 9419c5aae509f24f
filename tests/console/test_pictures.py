"""The pictures of the docs: each page on a desk and on a phone. `make screenshots`."""

import os
from io import BytesIO
from pathlib import Path
from typing import Any, cast

import pytest
from PIL import Image
from tests.console.conftest import NewContext
from tests.console.site import LiveSite
from tests.console.test_every_page import PHONE, open_visit
from tests.console.visits import VISITS, Visit

Colour = tuple[int, tuple[int, int, int, int]]
FOLDER = os.environ.get("WARRENER_SCREENSHOTS")
DESKTOP: Any = {"width": 1280, "height": 860}


@pytest.mark.skipif(not FOLDER, reason="pictures are made by make screenshots")
@pytest.mark.parametrize("size", ["desktop", "phone"])
@pytest.mark.parametrize("visit", VISITS, ids=lambda visit: visit.name)
def test_a_picture_of_the_page(visit: Visit, size: str, site: LiveSite, new_context: NewContext) -> None:
    is_phone = size == "phone"
    page = new_context(
        base_url=site.address,
        color_scheme="light",
        reduced_motion="reduce",
        viewport=PHONE if is_phone else DESKTOP,
        is_mobile=is_phone,
        has_touch=is_phone,
    ).new_page()
    open_visit(page, visit, site)
    folder = Path(str(FOLDER))
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{visit.name}-{size}-light.png"
    picture = Image.open(BytesIO(page.screenshot(full_page=size == "desktop")))
    with_few_colours(picture.convert("RGB")).save(path, optimize=True)
    assert picture.width == (PHONE if is_phone else DESKTOP)["width"]


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
