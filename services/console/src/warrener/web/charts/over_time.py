"""Charts over hours and days, with the moments of deploys: jobs by their end, durations and successes. Pure.

Both have one time axis from left to right. Nothing is drawn for what nobody measured.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo
from itertools import groupby
from math import log10

from warrener.render.times import brief
from warrener.render.tones import Tone
from warrener.web.charts import picture
from warrener.web.charts.svg import Attributes, Markup, element, join, line_path, percent

_EPOCH = datetime(2001, 1, 1, tzinfo=UTC)  # a Monday
_STEPS = (
    *(timedelta(minutes=count) for count in (1, 2, 5, 10, 15, 30)),
    *(timedelta(hours=count) for count in (1, 2, 3, 4, 6, 12)),
    *(timedelta(days=count) for count in (1, 2, 7, 14, 28, 91, 182, 364)),
)
"""Distances of times at the axis."""
_MAX_VERSION = 14  # signs
_FLAG = "M0 0L7 3L0 6Z"  # the sign of a deploy


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeBucket:
    """The jobs that ended within one stretch of time, and their durations; None: nothing was measured.

    `retried`: attempts that another one followed.
    """

    start: datetime
    succeeded: int = 0
    failed: int = 0
    retried: int = 0
    cancelled: int = 0
    p50: timedelta | None = None
    p95: timedelta | None = None

    @property
    def ratio(self) -> float | None:
        """The share of jobs that succeeded."""
        total = self.succeeded + self.failed
        return self.succeeded / total if total else None


@dataclass(frozen=True, slots=True)
class DeployMark:
    """A moment from which on agents ran another version of their code."""

    at: datetime
    version: str


class _TimeFrame:
    """A stretch of time that is drawn across the whole width, and the deploys within it, in order."""

    def __init__(
        self,
        buckets: Sequence[TimeBucket],
        zone: tzinfo,
        deploys: Iterable[DeployMark],
        last: timedelta = timedelta(0),
    ) -> None:
        """`last` is the length of the last stretch, if it is drawn too."""
        starts = [each.start for each in buckets] or [datetime.fromtimestamp(0, UTC)]
        self.zone, self.start = zone, starts[0]
        self.end = max(starts[-1] + last, self.start + timedelta(seconds=1))
        inside = (mark for mark in deploys if self.start <= mark.at <= self.end)
        self.deploys = sorted(inside, key=lambda mark: mark.at)

    def x(self, moment: datetime) -> float:
        """The place of a moment as a share of the width."""
        return min(max((moment - self.start) / (self.end - self.start), 0.0), 1.0)

    def clock(self, moment: datetime) -> str:
        """The moment in the reader's zone."""
        return f"{moment.astimezone(self.zone):%Y-%m-%d %H:%M}"

    def table(self, title: str, names: Sequence[str], rows: Iterable[tuple[datetime, list[str]]]) -> Markup:
        """A table of the facts of these moments and of the deploys, in order."""
        none = ["" for _ in names]
        lines = [(at, [*cells, ""]) for at, cells in rows]
        lines += [(mark.at, [*none, mark.version]) for mark in self.deploys]
        cells = [(self.clock(at), *texts) for at, texts in sorted(lines, key=lambda line: line[0])]
        return picture.facts_table(title, ("from", *names, "deployed"), cells)

    def draw_times(self, y: float) -> Iterator[Markup]:
        """Round times of the zone, or days of a longer stretch."""
        for x, words, look in picture.place_labels(self._times(7), self._times(4)):
            box: Attributes = {"x": percent(x), "y": y, "text_anchor": "middle"}
            yield element("text", words, **box, class_=f"chart-axis {look}".rstrip())

    def _times(self, count: int) -> list[picture.Label]:
        wanted = (self.end - self.start) / count
        step = next((each for each in _STEPS if each >= wanted), max(_STEPS[-1], wanted))
        form = "%H:%M" if step < timedelta(days=1) else "%d %b"
        offset = self.start.astimezone(self.zone).utcoffset() or timedelta(0)
        first = -((_EPOCH - offset - self.start) // step) * step + _EPOCH - offset
        moments = [first + step * number for number in range(max((self.end - first) // step + 1, 0))]
        return [(self.x(moment), f"{moment.astimezone(self.zone):{form}}") for moment in moments]

    def draw_deploys(self, top: float, bottom: float) -> Iterator[Markup]:
        """A dotted line for each deploy, named by its version if there is room."""
        for mark in self.deploys:
            column = percent(self.x(mark.at))
            title = element("title", f"{mark.version}, since {self.clock(mark.at)}")
            yield element("line", title, x1=column, y1=top - 6, x2=column, y2=bottom, class_="chart-deploy")
            flag = element("path", d=_FLAG, class_="chart-deploy-flag")
            yield element("svg", flag, x=column, y=top - 12, class_="chart-over")
        labels = [(self.x(mark.at), mark.version[:_MAX_VERSION]) for mark in self.deploys]
        for x, words, look in picture.place_labels(labels, beside=True):
            distance, anchor = (picture.BESIDE[0], "end") if x > 0.5 else (picture.BESIDE[1], None)
            box: Attributes = {"x": percent(x), "dx": distance, "y": top - 6}
            yield element("text", words, **box, text_anchor=anchor, class_=f"chart-axis {look}".rstrip())


def draw_level(y: float, words: str, look: str = "chart-rule") -> Iterator[Markup]:
    """A line across at this height, with its value at the left."""
    yield element("line", x1=0, y1=y, x2="100%", y2=y, class_=look)
    yield element("text", words, x=-6, y=y + 4, text_anchor="end", class_="chart-axis")


# -- durations and successes -------------------------------------------------------------------------------

_TOP, _FOOT = 22.0, 20.0  # heights of the deploys above a plot, and of the times below it
_DURATION, _BETWEEN, _SUCCESS = 140.0, 28.0, 54.0  # heights, from top to bottom
_FLOOR = _TOP + _DURATION + _BETWEEN + _SUCCESS
_MIN_FAILURE = 3.0  # height of the bar of a failure
_MAX_BAR = 0.012  # share of the width
_NICE_SECONDS = (
    *(base * 10.0**power for power in range(-3, 2) for base in (1.0, 2.0, 5.0) if base * 10.0**power < 60),
    *(count * 60.0 for count in (1, 2, 4, 10, 20, 30)),
    *(count * 3600.0 for count in (1, 2, 4, 8, 12, 24, 48, 96, 240, 480)),
)
"""Round durations, of which the half is one too."""


def draw_trend(
    buckets: Sequence[TimeBucket], *, title: str, deploys: Sequence[DeployMark] = (), zone: tzinfo = UTC
) -> picture.Picture:
    """Draw durations above and the share of successes below, on one time axis from bucket to bucket."""
    buckets = sorted(buckets, key=lambda each: each.start)
    frame = _TimeFrame(buckets, zone, deploys)
    measured = [each for bucket in buckets for each in (bucket.p50, bucket.p95) if each is not None]
    seconds = max([*measured, timedelta(milliseconds=1)]).total_seconds()
    top = timedelta(seconds=next((size for size in _NICE_SECONDS if size >= seconds), seconds))
    parts: list[Markup] = []
    for share in (0.0, 0.5, 1.0):
        parts += draw_level(_y(top * share, top), brief(top * share) if share else "0")
    for ratio in (0.0, 1.0):
        parts += draw_level(_y_ratio(ratio), f"{ratio:.0%}")
    look = "chart-axis chart-tone-good"
    parts.append(element("text", "success", x=0, y=_y_ratio(1.0) - 9, class_=look))
    parts += [*frame.draw_times(_FLOOR + 15), *frame.draw_deploys(_TOP, _FLOOR)]
    parts += [_draw_failures(bucket, frame, len(buckets)) for bucket in buckets if bucket.failed]
    parts += _draw_lines(buckets, frame, top)
    drawing = picture.draw(
        parts, ("100%", _FLOOR + _FOOT), "trend", (title, _summary(buckets)), "chart-trend"
    )
    rows: list[tuple[datetime, list[str]]] = []
    for one in buckets:
        lengths = ("" if each is None else brief(each) for each in (one.p50, one.p95))
        rows.append((one.start, [str(one.succeeded), str(one.failed), *lengths]))
    table = frame.table(title, ("succeeded", "failed", "p50", "p95"), rows)
    swatches = [
        (element("line", x1=0, y1=5, x2=18, y2=5, class_=f"chart-line {look}"), words)
        for words, look in (("p50", "chart-live"), ("p95", "chart-line-second chart-live"))
    ]
    swatches.append((element("rect", x=7, width=4, height=10, class_="chart-bar chart-error"), "failures"))
    if frame.deploys:
        flag = element("path", d=_FLAG, transform="translate(6 2)", class_="chart-deploy-flag")
        swatches.append((flag, "deploy"))
    return picture.Picture(join([drawing, picture.legend(swatches)]), table, fills_its_place=True)


def _y(length: timedelta | None, top: timedelta) -> float:
    return _TOP + _DURATION * (1 - min(max((length or timedelta(0)) / top, 0.0), 1.0))


def _y_ratio(ratio: float | None) -> float:
    return _FLOOR - _SUCCESS * (ratio or 0.0)


def _draw_failures(bucket: TimeBucket, frame: _TimeFrame, count: int) -> Markup:
    """A bar that hangs from above, as long as the share of failures; the least one can be seen."""
    words = element("title", f"{frame.clock(bucket.start)}, {bucket.failed} failed")
    width = min(0.7 / count, _MAX_BAR)
    x = min(max(frame.x(bucket.start) - width / 2, 0.0), 1.0 - width)
    height = max(_y_ratio(bucket.ratio) - _y_ratio(1.0), _MIN_FAILURE)
    box: Attributes = {"x": percent(x), "width": percent(width), "y": _y_ratio(1.0), "height": height}
    return element("rect", words, **box, class_="chart-bar chart-error")


def _draw_lines(buckets: Sequence[TimeBucket], frame: _TimeFrame, top: timedelta) -> Iterator[Markup]:
    """Draw a line for each run of measured buckets, the band of durations below them; a bucket between two
    gaps is a point."""
    paths: list[Markup] = []
    for run in _runs(buckets, lambda each: None if each.p50 is None else each.p95):
        above = [(1000 * frame.x(each.start), _y(each.p95, top)) for each in run]
        below = [(1000 * frame.x(each.start), _y(each.p50, top)) for each in reversed(run)]
        paths.append(element("path", d=f"{line_path([*above, *below])}Z", class_="chart-area chart-live"))
    lines: tuple[tuple[Callable[[TimeBucket], float | None], str, str], ...] = (
        (lambda each: None if each.p95 is None else _y(each.p95, top), "chart-line-second", "chart-live"),
        (lambda each: None if each.p50 is None else _y(each.p50, top), "", "chart-live"),
        (lambda each: None if each.ratio is None else _y_ratio(each.ratio), "", "chart-good"),
    )
    for height, look, tone in lines:
        for run in _runs(buckets, height):
            points = [(frame.x(each.start), height(each) or 0.0) for each in run]
            if len(points) == 1:
                (x, y) = points[0]
                yield element("circle", cx=percent(x), cy=y, r=2.4, class_=f"chart-point {tone}")
            else:
                line = line_path((1000 * x, y) for x, y in points)
                paths.append(element("path", d=line, class_=f"chart-line {look} {tone}".replace("  ", " ")))
    yield picture.stretch(_FLOOR, *paths)


def _runs(buckets: Sequence[TimeBucket], value: Callable[[TimeBucket], object]) -> Iterator[list[TimeBucket]]:
    """The stretches of buckets that have a value."""
    for measured, group in groupby(buckets, lambda each: value(each) is not None):
        if measured:
            yield list(group)


def _summary(buckets: Sequence[TimeBucket]) -> str:
    succeeded = sum(bucket.succeeded for bucket in buckets)
    failed = sum(bucket.failed for bucket in buckets)
    if not succeeded + failed:
        return "No job ended in this time."
    words = f"{succeeded} succeeded, {failed} failed."
    for each in reversed(buckets):
        if each.p50 is not None:
            slow = f", p95 {brief(each.p95)}" if each.p95 else ""
            return f"{words} Last median {brief(each.p50)}{slow}."
    return words


# -- jobs by their end -------------------------------------------------------------------------------------

_BARS = 150.0  # height
_BAR_WIDTH = 0.86  # share of its place
_ENDS = {"succeeded": Tone.GOOD, "cancelled": Tone.SOFT, "retried": Tone.WARNING, "failed": Tone.ERROR}
"""From below to above: failures stand at the top, where they are seen."""
_MIN_SEEN = 2.0  # height of what is not nothing


def draw_throughput(
    buckets: Sequence[TimeBucket], *, title: str, deploys: Sequence[DeployMark] = (), zone: tzinfo = UTC
) -> picture.Picture:
    """Draw a bar for each bucket; all are as long as the first one. An empty stretch has no bar."""
    buckets = sorted(buckets, key=lambda each: each.start)
    length = buckets[1].start - buckets[0].start if len(buckets) > 1 else timedelta(minutes=1)
    frame = _TimeFrame(buckets, zone, deploys, length)
    counts = [(each.start, [getattr(each, end) for end in _ENDS]) for each in buckets]
    top = _nice_count(max((sum(numbers) for _, numbers in counts), default=0))
    parts: list[Markup] = []
    for share in (0.0, 0.5, 1.0):
        words = f"{top * share:,.10g}".replace(",", "\u202f")
        parts += draw_level(_TOP + _BARS * (1 - share), words)
    parts += frame.draw_deploys(_TOP, _TOP + _BARS)
    for start, numbers in counts:
        parts += _draw_bar(start, numbers, frame, length, top)
    parts += frame.draw_times(_TOP + _BARS + 16)
    about = f"{_words([sum(getattr(each, end) for each in buckets) for end in _ENDS])}."
    size = ("100%", _TOP + _BARS + _FOOT)
    drawing = picture.draw(parts, size, "throughput", (title, about), "chart-throughput")
    swatches = [
        (element("rect", x=8, width=10, height=10, rx=2, class_=f"chart-bar chart-{tone}"), end)
        for end, tone in _ENDS.items()
    ]
    rows = ((start, [*map(str, numbers)]) for start, numbers in counts if any(numbers))
    table = frame.table(title, tuple(_ENDS), rows)
    return picture.Picture(join([drawing, picture.legend(swatches)]), table, fills_its_place=True)


def _draw_bar(
    start: datetime, counts: Sequence[int], frame: _TimeFrame, length: timedelta, top: float
) -> Iterator[Markup]:
    """Each part that is not empty; a small one is as high as can be seen."""
    left, right = frame.x(start), frame.x(start + length)
    words = element("title", f"{frame.clock(start)}: {_words(counts)}")
    y = _TOP + _BARS
    for count, tone in zip(counts, _ENDS.values(), strict=True):
        if count:
            height = min(max(_BARS * count / top, _MIN_SEEN), y - _TOP)
            y -= height
            box: Attributes = {"x": percent(left), "width": percent((right - left) * _BAR_WIDTH)}
            yield element("rect", words, **box, height=height, y=y, class_=f"chart-bar chart-{tone}")


def _words(counts: Sequence[int]) -> str:
    named = zip(counts, _ENDS, strict=True)
    return ", ".join(f"{count:,} {end}" for count, end in named if count) or "nothing"


def _nice_count(most: int) -> float:
    """The next round number, of which the half is one too."""
    if most <= 2:
        return 2.0
    size = 10.0 ** int(log10(most))
    return next(factor * size for factor in (1, 2, 4, 6, 8, 10, 20) if factor * size >= most)
