"""Colours differ for colour-blind readers too, in light and in dark.

Colour-blindness is simulated by the matrices of Machado, Oliveira and Fernandes (2009, severity 1), distances
are those of Oklab (Ottosson, 2020). A distance of 0.02 can just be seen. The bounds lie just below the
nearest tones and strengths of the palette, so that no change may bring two of them closer.
"""

import math
import re
from collections.abc import Sequence
from itertools import combinations, pairwise
from pathlib import Path

import pytest

from warrener.render.tones import Tone
from warrener.web import charts

Vector = tuple[float, float, float]

SHEET = (Path(charts.__file__).parent / "charts.css").read_text(encoding="utf-8")
MIN_DISTANCE, MIN_STEP = 0.095, 0.04  # of two tones; in lightness, of two strengths of the heat map
CONES = (
    (0.4122214708, 0.5363325363, 0.0514459929),
    (0.2119034982, 0.6806995451, 0.1073969566),
    (0.0883024619, 0.2817188376, 0.6299787005),
)
OKLAB = (
    (0.2104542553, 0.7936177850, -0.0040720468),
    (1.9779984951, -2.4285922050, 0.4505937099),
    (0.0259040371, 0.7827717662, -0.8086757660),
)
SIGHTS: dict[str, tuple[Vector, Vector, Vector]] = {
    "normal": ((1, 0, 0), (0, 1, 0), (0, 0, 1)),
    "protanopia": (
        (0.152286, 1.052583, -0.204868),
        (0.114503, 0.786281, 0.099216),
        (-0.003882, -0.048116, 1.051998),
    ),
    "deuteranopia": (
        (0.367322, 0.860646, -0.227968),
        (0.280085, 0.672501, 0.047413),
        (-0.011820, 0.042940, 0.968881),
    ),
    "tritanopia": (
        (1.255528, -0.076749, -0.178779),
        (-0.078411, 0.930809, 0.147602),
        (0.004733, 0.691367, 0.303900),
    ),
}


COLOURS = re.findall(r"(--chart-[\w-]+): light-dark\((#[0-9a-f]{6}), (#[0-9a-f]{6})\);", SHEET)
THEMES = {
    "light": {name: light for name, light, _ in COLOURS},
    "dark": {name: dark for name, _, dark in COLOURS},
}


def linear(colour: str) -> Vector:
    red, green, blue = (int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5))
    return (_linear(red), _linear(green), _linear(blue))


def _linear(share: float) -> float:
    return share / 12.92 if share <= 0.04045 else ((share + 0.055) / 1.055) ** 2.4


def _times(matrix: Sequence[Vector], colour: Vector) -> Vector:
    one, two, three = (sum(a * b for a, b in zip(row, colour, strict=True)) for row in matrix)
    return (one, two, three)


def seen(colour: str, sight: str) -> Vector:
    """Lightness and two opponent colours, as a reader with this sight sees them."""
    red, green, blue = (min(max(part, 0.0), 1.0) for part in _times(SIGHTS[sight], linear(colour)))
    long, middle, short = map(math.cbrt, _times(CONES, (red, green, blue)))
    return _times(OKLAB, (long, middle, short))


def contrast(one: str, two: str) -> float:
    low, high = sorted(
        sum(part * share for part, share in zip((0.2126, 0.7152, 0.0722), linear(each), strict=True))
        for each in (one, two)
    )
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("sight", SIGHTS)
@pytest.mark.parametrize("theme", THEMES)
def test_tones_differ_for_every_sight(theme: str, sight: str) -> None:
    colours = THEMES[theme]
    shown = {tone: seen(colours[f"--chart-{tone}"], sight) for tone in Tone}
    distances = {(one, two): math.dist(shown[one], shown[two]) for one, two in combinations(Tone, 2)}
    close = {pair: round(each, 3) for pair, each in distances.items() if each < MIN_DISTANCE}
    assert not close, f"expected {MIN_DISTANCE} or more, got {close}"


@pytest.mark.parametrize("theme", THEMES)
def test_shapes_have_a_contrast_of_three_and_texts_of_four_and_a_half(theme: str) -> None:
    colours = THEMES[theme]
    grounds = [colours["--chart-back"], colours["--chart-fold"]]
    for tone in Tone:
        assert contrast(colours[f"--chart-{tone}"], colours["--chart-back"]) >= 3, tone
    for name in ("ink", "muted", *(f"{tone}-ink" for tone in Tone)):
        assert all(contrast(colours[f"--chart-{name}"], ground) >= 4.5 for ground in grounds), name


@pytest.mark.parametrize("sight", SIGHTS)
@pytest.mark.parametrize("theme", THEMES)
def test_the_strengths_of_the_heat_map_rise_by_lightness_alone(theme: str, sight: str) -> None:
    names = ["--chart-fold", *(f"--chart-heat-{number}" for number in range(1, 6))]
    lights = [seen(THEMES[theme][name], sight)[0] for name in names]
    steps = [abs(two - one) for one, two in pairwise(lights)]
    assert lights == sorted(lights, reverse=theme == "light")
    assert min(steps) >= MIN_STEP
