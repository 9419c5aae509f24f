"""Colours differ for colour-blind readers too, in light and in dark.

Colour-blindness is simulated by the matrices of Machado, Oliveira and Fernandes (2009, severity 1), distances
are CIEDE2000. A distance of 2 can just be seen; 15 is as far as two colours of a good printed chart.
"""

import math
import re
from itertools import combinations, pairwise
from pathlib import Path

import pytest

from warrener.render.tones import Tone
from warrener.web import charts

Vector = tuple[float, float, float]

SHEET = (Path(charts.__file__).parent / "charts.css").read_text(encoding="utf-8")
MIN_DISTANCE = 15.0
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


def seen(colour: Vector, sight: str) -> Vector:
    one, two, three = (
        min(max(sum(a * b for a, b in zip(row, colour, strict=True)), 0.0), 1.0) for row in SIGHTS[sight]
    )
    return (one, two, three)


def lab(colour: Vector) -> Vector:
    red, green, blue = colour
    x = _cube((0.4124564 * red + 0.3575761 * green + 0.1804375 * blue) / 0.95047)
    y = _cube(0.2126729 * red + 0.7151522 * green + 0.0721750 * blue)
    z = _cube((0.0193339 * red + 0.1191920 * green + 0.9503041 * blue) / 1.08883)
    return (116 * y - 16, 500 * (x - y), 200 * (y - z))


def _cube(share: float) -> float:
    return math.cbrt(share) if share > 216 / 24389 else (24389 / 27 * share + 16) / 116


def distance(one: Vector, two: Vector) -> float:
    """CIEDE2000, as Sharma, Wu and Dalal write it."""
    mean_chroma = (math.hypot(*one[1:]) + math.hypot(*two[1:])) / 2
    grey = 1.5 - 0.5 * math.sqrt(mean_chroma**7 / (mean_chroma**7 + 25**7))
    (chroma1, hue1), (chroma2, hue2) = (_polar(each[1] * grey, each[2]) for each in (one, two))
    hue = 0.0 if not chroma1 * chroma2 else (hue2 - hue1 + 180) % 360 - 180
    light_change, chroma_change = two[0] - one[0], chroma2 - chroma1
    hue_change = 2 * math.sqrt(chroma1 * chroma2) * math.sin(math.radians(hue / 2))
    light, chroma = (one[0] + two[0]) / 2, (chroma1 + chroma2) / 2
    mean = (hue1 + hue / 2) % 360 if chroma1 * chroma2 else hue1 + hue2
    weight = 1 - 0.17 * _cos(mean - 30) + 0.24 * _cos(2 * mean)
    weight += 0.32 * _cos(3 * mean + 6) - 0.2 * _cos(4 * mean - 63)
    light_change /= 1 + 0.015 * (light - 50) ** 2 / math.sqrt(20 + (light - 50) ** 2)
    chroma_change /= 1 + 0.045 * chroma
    hue_change /= 1 + 0.015 * chroma * weight
    turn = 60 * math.exp(-(((mean - 275) / 25) ** 2))
    rotation = -2 * math.sqrt(chroma**7 / (chroma**7 + 25**7)) * math.sin(math.radians(turn))
    squares = light_change**2 + chroma_change**2 + hue_change**2 + rotation * chroma_change * hue_change
    return math.sqrt(squares)


def _polar(a: float, b: float) -> tuple[float, float]:
    return math.hypot(a, b), math.degrees(math.atan2(b, a)) % 360


def _cos(degrees: float) -> float:
    return math.cos(math.radians(degrees))


def contrast(one: str, two: str) -> float:
    """The contrast of WCAG 2."""
    low, high = sorted(
        sum(part * share for part, share in zip((0.2126, 0.7152, 0.0722), linear(each), strict=True))
        for each in (one, two)
    )
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize(
    ("one", "two", "expected"),
    [
        ((50, 2.6772, -79.7751), (50, 0, -82.7485), 2.0425),
        ((50, 2.5, 0), (73, 25, -18), 27.1492),
        ((60.2574, -34.0099, 36.2677), (60.4626, -34.1751, 39.4387), 1.2644),
        ((2.0776, 0.0795, -1.135), (0.9033, -0.0636, -0.5514), 0.9082),
    ],
)
def test_distances_are_those_of_the_paper(one: Vector, two: Vector, expected: float) -> None:
    assert distance(one, two) == pytest.approx(expected, abs=1e-4)


@pytest.mark.parametrize("sight", SIGHTS)
@pytest.mark.parametrize("theme", THEMES)
def test_tones_differ_for_every_sight(theme: str, sight: str) -> None:
    colours = THEMES[theme]
    shown = {tone: lab(seen(linear(colours[f"--chart-{tone}"]), sight)) for tone in Tone}
    distances = {(one, two): distance(shown[one], shown[two]) for one, two in combinations(Tone, 2)}
    close = {pair: round(each, 1) for pair, each in distances.items() if each < MIN_DISTANCE}
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
    lights = [lab(seen(linear(THEMES[theme][name]), sight))[0] for name in names]
    steps = [abs(two - one) for one, two in pairwise(lights)]
    assert lights == sorted(lights, reverse=theme == "light")
    assert min(steps) >= 4
