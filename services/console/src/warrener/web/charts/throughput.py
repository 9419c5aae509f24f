"""Jobs by their end over time, as stacked bars, with the moments of deploys. Pure."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo
from math import log10

from warrener.render.tones import Tone
from warrener.web.charts.picture import Picture, draw, facts_table
from warrener.web.charts.svg import Canvas, element, text_width
from warrener.web.charts.time_frame import SMALL, DeployMark, TimeFrame

_TOP, _BARS, _FOOT = 22.0, 130.0, 42.0  # heights, from top to bottom
_HEIGHT = _TOP + _BARS + _FOOT
_ENDS = (
    ("succeeded", Tone.GOOD),
    ("cancelled", Tone.SOFT),
    ("retried", Tone.WARNING),
    ("failed", Tone.ERROR),
)
"""From below to above: failures stand at the top, where they are seen."""
_MIN_SEEN = 2.0  # height of what is not nothing


@dataclass(frozen=True, slots=True, kw_only=True)
class ThroughputBucket:
    """The ends of jobs and attempts within one stretch of time."""

    start: datetime
    succeeded: int = 0
    failed: int = 0
    retried: int = 0
    cancelled: int = 0

    @property
    def total(self) -> int:
        """All of them."""
        return self.succeeded + self.failed + self.retried + self.cancelled


def draw_throughput(
    buckets: Sequence[ThroughputBucket],
    length: timedelta,
    *,
    title: str,
    deploys: Sequence[DeployMark] = (),
    name: str = "throughput",
    zone: tzinfo = UTC,
    narrow: bool = False,
) -> Picture:
    """Draw a bar for each bucket; each lasts for `length`. An empty stretch has no bar."""
    canvas, width = Canvas(), 360.0 if narrow else 720.0
    frame = TimeFrame(canvas, [each.start for each in buckets], width, zone, length)
    top = _nice_count(max((each.total for each in buckets), default=0))
    for share in (0.0, 0.5, 1.0):
        frame.draw_level(_TOP + _BARS * (1 - share), f"{top * share:,.10g}".replace(",", "\u202f"))
    marks = frame.inside(deploys)
    frame.draw_deploys(marks, _TOP, _TOP + _BARS)
    for bucket in buckets:
        left, right = frame.x(bucket.start), frame.x(bucket.start + length)
        room = max(right - left - min(1.0, (right - left) / 4), 0.5)
        words = element("title", f"{frame.clock(bucket.start)}: {_words(bucket)}")
        for tone, y, height in _stack(bucket, top):
            canvas.add(
                element(
                    "rect", words, x=left, y=y, width=room, height=height, class_=f"chart-bar chart-{tone}"
                )
            )
    frame.draw_times(_TOP + _BARS + 16)
    x = frame.left
    for end, tone in _ENDS:
        canvas.add(
            element(
                "rect", x=x, y=_HEIGHT - 15, width=10.0, height=10.0, rx=2.0, class_=f"chart-bar chart-{tone}"
            )
        )
        canvas.write(x + 14, _HEIGHT - 6, end, SMALL, "chart-axis")
        x += 24 + text_width(end, SMALL)
    rows = [
        (each.start, (*(f"{getattr(each, end)}" for end, _ in _ENDS), "")) for each in buckets if each.total
    ]
    rows += [(mark.at, (*("" for _ in _ENDS), mark.version)) for mark in marks]
    table = facts_table(
        title,
        ("from", *(end for end, _ in _ENDS), "deployed"),
        [(frame.clock(at), *rest) for at, rest in sorted(rows, key=lambda row: row[0])],
    )
    sums = ThroughputBucket(
        start=frame.start,
        succeeded=sum(each.succeeded for each in buckets),
        failed=sum(each.failed for each in buckets),
        retried=sum(each.retried for each in buckets),
        cancelled=sum(each.cancelled for each in buckets),
    )
    return draw(canvas, table, (width, _HEIGHT), name, (title, f"{_words(sums)}."), "chart-throughput")


def _words(bucket: ThroughputBucket) -> str:
    counts = ((getattr(bucket, end), end) for end, _ in _ENDS)
    return ", ".join(f"{count:,} {end}" for count, end in counts if count) or "nothing"


def _stack(bucket: ThroughputBucket, top: float) -> Iterator[tuple[Tone, float, float]]:
    """Tone, upper edge and height of each part that is not empty; a small one is as high as can be seen."""
    y = _TOP + _BARS
    for end, tone in _ENDS:
        count: int = getattr(bucket, end)
        if count:
            height = min(max(_BARS * count / top, _MIN_SEEN), y - _TOP)
            y -= height
            yield tone, y, height


def _nice_count(most: int) -> float:
    """The next round number, of which the half is one too."""
    if most <= 2:
        return 2.0
    size = 10.0 ** int(log10(most))
    return next(factor * size for factor in (1, 2, 4, 6, 8, 10, 20) if factor * size >= most)
