"""Durations and successes over time, with the moments of deploys; nothing is drawn for what nobody measured.
Pure."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo
from itertools import groupby

from warrener.render.times import brief
from warrener.web.charts.picture import Picture, draw, facts_table
from warrener.web.charts.svg import Canvas, Markup, element, line_path
from warrener.web.charts.time_frame import SMALL, DeployMark, TimeFrame, flag

_TOP, _DURATION, _BETWEEN, _SUCCESS, _FOOT = 22.0, 120.0, 26.0, 48.0, 40.0  # heights, from top to bottom
_HEIGHT = _TOP + _DURATION + _BETWEEN + _SUCCESS + _FOOT
_MIN_SEEN = 3.0  # height of the bar of a failure
_NICE_SECONDS = (1.0, 2.0, 5.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class TrendBucket:
    """The jobs that ended within one stretch of time. None: nothing was measured."""

    start: datetime
    succeeded: int = 0
    failed: int = 0
    p50: timedelta | None = None
    p95: timedelta | None = None

    @property
    def ratio(self) -> float | None:
        """The share of jobs that succeeded."""
        total = self.succeeded + self.failed
        return self.succeeded / total if total else None


def draw_trend(
    buckets: Sequence[TrendBucket],
    *,
    title: str,
    deploys: Sequence[DeployMark] = (),
    name: str = "trend",
    zone: tzinfo = UTC,
    narrow: bool = False,
) -> Picture:
    """Draw durations above and the share of successes below, on one time axis from bucket to bucket."""
    return _Trend(buckets, title, deploys, zone, narrow=narrow).make(name)


class _Trend:
    def __init__(
        self,
        buckets: Sequence[TrendBucket],
        title: str,
        deploys: Sequence[DeployMark],
        zone: tzinfo,
        *,
        narrow: bool,
    ) -> None:
        self.buckets, self.title = sorted(buckets, key=lambda each: each.start), title
        self.width = 360.0 if narrow else 720.0
        self.canvas = Canvas()
        self.frame = TimeFrame(self.canvas, [each.start for each in self.buckets], self.width, zone)
        self.deploys = self.frame.inside(deploys)
        measured = [each for bucket in self.buckets for each in (bucket.p50, bucket.p95) if each is not None]
        self.top_value = _nice_ceiling(max([*measured, timedelta(milliseconds=1)]))

    def make(self, name: str) -> Picture:
        self._draw_axes()
        self.frame.draw_deploys(self.deploys, _TOP, self.y_ratio(0.0))
        for bucket in self.buckets:
            if bucket.failed:
                self._draw_failures(bucket)
        # The band first, so that the lines stand over it.
        for run in _runs(self.buckets, lambda each: None if each.p50 is None else each.p95):
            points = [(self.frame.x(each.start), self.y(each.p95 or timedelta(0))) for each in run]
            back = [(self.frame.x(each.start), self.y(each.p50 or timedelta(0))) for each in reversed(run)]
            self.canvas.add(
                element("path", d=f"{line_path([*points, *back])}Z", class_="chart-area chart-live")
            )
        self._draw_line(
            lambda each: each.p95, lambda each: self.y(each.p95 or timedelta(0)), "chart-live", second=True
        )
        self._draw_line(lambda each: each.p50, lambda each: self.y(each.p50 or timedelta(0)), "chart-live")
        self._draw_line(lambda each: each.ratio, lambda each: self.y_ratio(each.ratio or 0.0), "chart-good")
        words = (self.title, self._summary())
        table = _table(self.title, self.buckets, self.deploys, self.frame.zone)
        return draw(self.canvas, table, (self.width, _HEIGHT), name, words, "chart-trend")

    def y(self, length: timedelta) -> float:
        return _TOP + _DURATION * (1 - min(max(length / self.top_value, 0.0), 1.0))

    def y_ratio(self, ratio: float) -> float:
        return _TOP + _DURATION + _BETWEEN + _SUCCESS * (1 - min(max(ratio, 0.0), 1.0))

    def _draw_axes(self) -> None:
        for share in (0.0, 0.5, 1.0):
            words = brief(self.top_value * share) if share else "0"
            self.frame.draw_level(self.y(self.top_value * share), words)
        for ratio in (0.0, 1.0):
            self.frame.draw_level(self.y_ratio(ratio), f"{ratio:.0%}")
        success = "chart-axis chart-tone-good"
        self.canvas.write(self.frame.left, _TOP + _DURATION + 17, "success", SMALL, success)
        self.frame.draw_times(_HEIGHT - _FOOT + 15)
        self._draw_legend(_HEIGHT - 8)

    def _draw_legend(self, y: float) -> None:
        x = self.frame.left
        for words, look in (
            ("p50", "chart-line chart-live"),
            ("p95", "chart-line chart-line-second chart-live"),
        ):
            self.canvas.add(element("line", x1=x, y1=y - 4, x2=x + 18, y2=y - 4, class_=look))
            self.canvas.write(x + 23, y, words, SMALL, "chart-axis")
            x += 62
        box = {"x": x, "y": y - 9, "width": 4.0, "height": 9.0}
        self.canvas.add(element("rect", **box, class_="chart-bar chart-error"))
        self.canvas.write(x + 13, y, "failures", SMALL, "chart-axis")
        if self.deploys:
            x += 78
            self.canvas.add(flag(x, y - 10))
            self.canvas.write(x + 10, y, "deploy", SMALL, "chart-axis")

    def _draw_line(
        self,
        value: Callable[[TrendBucket], object],
        height: Callable[[TrendBucket], float],
        tone: str,
        *,
        second: bool = False,
    ) -> None:
        """A line for each run of measured buckets; a bucket between two gaps is a point."""
        look = f"chart-line {tone}{' chart-line-second' if second else ''}"
        for run in _runs(self.buckets, value):
            points = [(self.frame.x(each.start), height(each)) for each in run]
            if len(points) == 1:
                self.canvas.add(
                    element("circle", cx=points[0][0], cy=points[0][1], r=2.4, class_=f"chart-point {tone}")
                )
            else:
                self.canvas.add(element("path", d=line_path(points), class_=look))

    def _draw_failures(self, bucket: TrendBucket) -> None:
        """A bar that hangs from above, as long as the share of failures; the least one can be seen."""
        words = element("title", f"{self.frame.clock(bucket.start)}, {bucket.failed} failed")
        top, bottom = self.y_ratio(1.0), self.y_ratio(bucket.ratio or 0.0)
        width = min(max((self.frame.right - self.frame.left) / len(self.buckets) * 0.7, 1.5), 8.0)
        x = min(max(self.frame.x(bucket.start) - width / 2, self.frame.left), self.frame.right - width)
        box = {"x": x, "y": top, "width": width, "height": max(bottom - top, _MIN_SEEN)}
        self.canvas.add(element("rect", words, **box, class_="chart-bar chart-error"))

    def _summary(self) -> str:
        succeeded = sum(bucket.succeeded for bucket in self.buckets)
        failed = sum(bucket.failed for bucket in self.buckets)
        if not succeeded + failed:
            return "No job ended in this time."
        last = next((bucket for bucket in reversed(self.buckets) if bucket.p50 is not None), None)
        newest = ""
        if last is not None and last.p50 is not None:
            newest = f" Last median {brief(last.p50)}" + (f", p95 {brief(last.p95)}." if last.p95 else ".")
        return f"{succeeded} succeeded, {failed} failed.{newest}"


def _runs(
    buckets: Sequence[TrendBucket], value: Callable[[TrendBucket], object]
) -> Iterator[list[TrendBucket]]:
    """The stretches of buckets that have a value."""
    for measured, group in groupby(buckets, lambda each: value(each) is not None):
        if measured:
            yield list(group)


def _nice_ceiling(length: timedelta) -> timedelta:
    """The next round duration: its half is one too."""
    seconds = length.total_seconds()
    sizes = [
        base * 10.0**power for power in range(-3, 2) for base in _NICE_SECONDS if base * 10.0**power < 60
    ]
    sizes += [count * 60.0 for count in (1, 2, 4, 10, 20, 30)]
    sizes += [count * 3600.0 for count in (1, 2, 4, 8, 12, 24, 48, 96, 240, 480)]
    return timedelta(seconds=next((size for size in sizes if size >= seconds), seconds))


def _table(title: str, buckets: Sequence[TrendBucket], deploys: Sequence[DeployMark], zone: tzinfo) -> Markup:
    rows = [
        (
            each.start,
            (
                str(each.succeeded),
                str(each.failed),
                "" if each.p50 is None else brief(each.p50),
                "" if each.p95 is None else brief(each.p95),
                "",
            ),
        )
        for each in buckets
    ]
    rows += [(mark.at, ("", "", "", "", mark.version)) for mark in deploys]
    header = ("from", "succeeded", "failed", "p50", "p95", "deployed")
    return facts_table(
        title,
        header,
        [
            (f"{at.astimezone(zone):%Y-%m-%d %H:%M}", *rest)
            for at, rest in sorted(rows, key=lambda row: row[0])
        ],
    )
