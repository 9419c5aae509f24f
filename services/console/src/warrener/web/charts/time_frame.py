"""The time axis of charts from left to right through hours and days, with marks at deploys. Pure."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo

from warrener.web.charts.svg import Canvas, Markup, element, fit, line_path, text_width

SMALL = 10.5
"""The size of texts at axes."""
_EPOCH = datetime(2001, 1, 1, tzinfo=UTC)  # a Monday
_STEPS = (
    *(timedelta(minutes=count) for count in (1, 2, 5, 10, 15, 30)),
    *(timedelta(hours=count) for count in (1, 2, 3, 4, 6, 12)),
    *(timedelta(days=count) for count in (1, 2, 7, 14, 28, 91, 182, 364)),
)
"""Distances of times at the axis."""
_MAX_VERSION = 90.0  # width of a version


@dataclass(frozen=True, slots=True)
class DeployMark:
    """A moment from which on agents ran another version of their code."""

    at: datetime
    version: str


class TimeFrame:
    """A stretch of time that is drawn between two columns."""

    def __init__(
        self,
        canvas: Canvas,
        starts: Iterable[datetime],
        width: float,
        zone: tzinfo,
        last: timedelta | None = None,
    ) -> None:
        """`last` is the length of the last stretch, if it is drawn too."""
        ordered = sorted(starts) or [datetime.fromtimestamp(0, UTC)]
        self.canvas, self.width, self.zone = canvas, width, zone
        self.left, self.right = 56.0, width - 14.0
        self.start = ordered[0]
        self.end = max(ordered[-1] + (last or timedelta(0)), ordered[0] + timedelta(seconds=1))

    def x(self, moment: datetime) -> float:
        """The column of a moment."""
        share = (moment - self.start) / (self.end - self.start)
        return self.left + (self.right - self.left) * min(max(share, 0.0), 1.0)

    def inside(self, deploys: Iterable[DeployMark]) -> list[DeployMark]:
        """The deploys within the time, in order."""
        found = (mark for mark in deploys if self.start <= mark.at <= self.end)
        return sorted(found, key=lambda mark: mark.at)

    def clock(self, moment: datetime) -> str:
        """The moment in the reader's zone."""
        return f"{moment.astimezone(self.zone):%Y-%m-%d %H:%M}"

    def draw_level(self, y: float, words: str) -> None:
        """A line across at this height, with its value at the left."""
        self.canvas.add(element("line", x1=self.left, y1=y, x2=self.right, y2=y, class_="chart-rule"))
        self.canvas.write(self.left - 6, y + 4, fit(words, SMALL, self.left - 10), SMALL, "chart-axis", "end")

    def draw_times(self, y: float) -> None:
        """Round times of the zone, or days of a longer stretch."""
        wanted = (self.end - self.start) / (4 if self.width < 500 else 7)
        step = next((each for each in _STEPS if each >= wanted), max(_STEPS[-1], wanted))
        form = "%H:%M" if step < timedelta(days=1) else "%d %b"
        offset = self.start.astimezone(self.zone).utcoffset() or timedelta(0)
        first = -((_EPOCH - offset - self.start) // step) * step + _EPOCH - offset
        for number in range(int((self.end - first) / step) + 1 if first <= self.end else 0):
            moment = first + step * number
            words = f"{moment.astimezone(self.zone):{form}}"
            width = text_width(words, SMALL)
            at = min(max(self.x(moment) - width / 2, 2.0), self.width - width - 2)
            if self.canvas.is_free(at - 4, y, width + 8, SMALL):
                self.canvas.write(at, y, words, SMALL, "chart-axis")

    def draw_deploys(self, deploys: Iterable[DeployMark], top: float, bottom: float) -> None:
        """A dotted line for each deploy, named by its version if there is room."""
        for mark in self.inside(deploys):
            x = self.x(mark.at)
            title = element("title", f"{mark.version}, since {self.clock(mark.at)}")
            self.canvas.add(
                element("line", title, x1=x, y1=top - 6, x2=x, y2=bottom, class_="chart-deploy"),
                flag(x, top - 12),
            )
            words = fit(mark.version, SMALL, _MAX_VERSION)
            width = text_width(words, SMALL)
            at = x + 10 if x + 10 + width < self.width - 2 else x - 4 - width
            if self.canvas.is_free(at - 4, top - 6, width + 8, SMALL):
                self.canvas.write(at, top - 6, words, SMALL, "chart-axis")


def flag(x: float, y: float) -> Markup:
    """The sign of a deploy."""
    return element(
        "path", d=f"{line_path([(x, y), (x + 7, y + 3), (x, y + 6)])}Z", class_="chart-deploy-flag"
    )
