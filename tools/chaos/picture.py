"""The picture of a run as SVG: jobs that ended in each second, and the faults as bars. Pure."""

from collections.abc import Sequence
from html import escape

from tools.chaos.history import FaultFact

_WIDTH, _HEIGHT, _LEFT, _TOP, _BOTTOM = 1200, 260, 50, 24, 40
_COLOURS = {
    "scheduler": "#4c72b0",
    "agent": "#55a868",
    "supervisor": "#8172b2",
    "broker": "#dd8452",
    "database": "#c44e52",
    "clock": "#937860",
    "other": "#8c8c8c",
}


def draw(seconds: Sequence[int], faults: Sequence[FaultFact], began: float) -> str:
    """One SVG; each fault's bar has its name as a tooltip, and the colour of what it concerns."""
    most, span = max([*seconds, 1]), max(len(seconds), 1)

    def across(second: float) -> float:
        return _LEFT + second / span * (_WIDTH - _LEFT - 10)

    def up(count: float) -> float:
        return _HEIGHT - _BOTTOM - count / most * (_HEIGHT - _BOTTOM - _TOP)

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}" font-family="sans-serif" '
        'font-size="11">',
        f'<rect width="{_WIDTH}" height="{_HEIGHT}" fill="white"/>',
    ]
    for fault in faults:
        begun, ended = across(fault.begun - began), across(fault.ended - began)
        parts.append(
            f'<rect x="{begun:.1f}" y="{_TOP}" width="{max(ended - begun, 1.5):.1f}" '
            f'height="{_HEIGHT - _BOTTOM - _TOP}" fill="{_COLOURS[concerns(fault.kind)]}" opacity="0.35">'
            f"<title>{escape(f'{fault.number}: {fault.kind} {fault.detail}')}</title></rect>"
        )
    points = " ".join(f"{across(second + 0.5):.1f},{up(count):.1f}" for second, count in enumerate(seconds))
    parts.append(f'<polyline points="{points}" fill="none" stroke="black" stroke-width="0.8"/>')
    parts += [f'<text x="4" y="{up(count) + 4:.1f}">{count}</text>' for count in (0, most // 2, most)]
    for minute in range(0, span // 60 + 1, max(1, span // 600)):
        parts.append(f'<text x="{across(minute * 60):.1f}" y="{_HEIGHT - 24}">{minute} min</text>')
    parts.append(
        '<text x="50" y="14">jobs that ended in each second, and the faults, by what they act on</text>'
    )
    for place, (name, colour) in enumerate(_COLOURS.items()):
        x = _LEFT + place * 110
        parts.append(f'<rect x="{x}" y="{_HEIGHT - 14}" width="10" height="10" fill="{colour}"/>')
        parts.append(f'<text x="{x + 14}" y="{_HEIGHT - 5}">{name}</text>')
    return "\n".join([*parts, "</svg>", ""])


def concerns(kind: str) -> str:
    """What a kind of fault acts on, by the first of our words in its name."""
    return next((name for name in _COLOURS if kind.replace("all of ", "").startswith(name)), "other")
