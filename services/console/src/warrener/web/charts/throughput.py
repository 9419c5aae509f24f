"""Jobs by their end over time, as stacked bars, with the moments of deploys. Pure."""

from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, timedelta, tzinfo
from math import log10

from warrener.render.tones import Tone
from warrener.web.charts.picture import Picture, draw, facts_table, legend
from warrener.web.charts.svg import Attributes, Markup, element, join, percent
from warrener.web.charts.time_frame import DeployMark, TimeBucket, TimeFrame, draw_level

_TOP, _BARS, _FOOT = 22.0, 150.0, 20.0  # heights, from top to bottom
_BAR_WIDTH = 0.86  # share of its place
_ENDS = (
    ("succeeded", Tone.GOOD),
    ("cancelled", Tone.SOFT),
    ("retried", Tone.WARNING),
    ("failed", Tone.ERROR),
)
"""From below to above: failures stand at the top, where they are seen."""
_MIN_SEEN = 2.0  # height of what is not nothing


def draw_throughput(
    buckets: Sequence[TimeBucket], *, title: str, deploys: Sequence[DeployMark] = (), zone: tzinfo = UTC
) -> Picture:
    """Draw a bar for each bucket; all are as long as the first one. An empty stretch has no bar."""
    buckets = sorted(buckets, key=lambda each: each.start)
    length = buckets[1].start - buckets[0].start if len(buckets) > 1 else timedelta(minutes=1)
    frame = TimeFrame([each.start for each in buckets], zone, length)
    top = _nice_count(max((sum(_counts(each)) for each in buckets), default=0))
    parts: list[Markup] = []
    for share in (0.0, 0.5, 1.0):
        words = f"{top * share:,.10g}".replace(",", "\u202f")
        parts += draw_level(_TOP + _BARS * (1 - share), words)
    parts += frame.draw_deploys(deploys, _TOP, _TOP + _BARS)
    for bucket in buckets:
        parts += _draw_bar(bucket, frame, length, top)
    parts += frame.draw_times(_TOP + _BARS + 16)
    about = f"{_words(map(sum, zip(*map(_counts, buckets), strict=True)))}."
    size = ("100%", _TOP + _BARS + _FOOT)
    drawing = draw(parts, size, "throughput", (title, about), "chart-throughput")
    swatches = [
        (element("rect", x=8, width=10, height=10, rx=2, class_=f"chart-bar chart-{tone}"), end)
        for end, tone in _ENDS
    ]
    table = _table(title, buckets, frame, frame.inside(deploys))
    return Picture(join([drawing, legend(swatches)]), table, fills_its_place=True)


def _draw_bar(bucket: TimeBucket, frame: TimeFrame, length: timedelta, top: float) -> Iterator[Markup]:
    """Each part that is not empty; a small one is as high as can be seen."""
    left, right = frame.x(bucket.start), frame.x(bucket.start + length)
    words = element("title", f"{frame.clock(bucket.start)}: {_words(_counts(bucket))}")
    y = _TOP + _BARS
    for count, (_, tone) in zip(_counts(bucket), _ENDS, strict=True):
        if count:
            height = min(max(_BARS * count / top, _MIN_SEEN), y - _TOP)
            y -= height
            box: Attributes = {
                "x": percent(left),
                "width": percent((right - left) * _BAR_WIDTH),
                "height": height,
            }
            yield element("rect", words, **box, y=y, class_=f"chart-bar chart-{tone}")


def _counts(bucket: TimeBucket) -> list[int]:
    return [getattr(bucket, end) for end, _ in _ENDS]


def _words(counts: Iterable[int]) -> str:
    named = zip(counts, _ENDS, strict=False)  # no counts at all without buckets
    return ", ".join(f"{count:,} {end}" for count, (end, _) in named if count) or "nothing"


def _table(
    title: str, buckets: Sequence[TimeBucket], frame: TimeFrame, deploys: Sequence[DeployMark]
) -> Markup:
    rows = [(each.start, (*map(str, counts), "")) for each in buckets if any(counts := _counts(each))]
    rows += [(mark.at, (*("" for _ in _ENDS), mark.version)) for mark in deploys]
    header = ("from", *(end for end, _ in _ENDS), "deployed")
    return facts_table(title, header, frame.table_rows(rows))


def _nice_count(most: int) -> float:
    """The next round number, of which the half is one too."""
    if most <= 2:
        return 2.0
    size = 10.0 ** int(log10(most))
    return next(factor * size for factor in (1, 2, 4, 6, 8, 10, 20) if factor * size >= most)
