"""The time axis of charts from left to right through hours and days, with marks at deploys. Pure."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo

from warrener.web.charts.picture import BESIDE, Label, place_labels
from warrener.web.charts.svg import Markup, element, percent

_EPOCH = datetime(2001, 1, 1, tzinfo=UTC)  # a Monday
_STEPS = (
    *(timedelta(minutes=count) for count in (1, 2, 5, 10, 15, 30)),
    *(timedelta(hours=count) for count in (1, 2, 3, 4, 6, 12)),
    *(timedelta(days=count) for count in (1, 2, 7, 14, 28, 91, 182, 364)),
)
"""Distances of times at the axis."""
_MAX_VERSION = 14  # signs
FLAG = "M0 0L7 3L0 6Z"
"""The sign of a deploy."""


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


class TimeFrame:
    """A stretch of time that is drawn across the whole width."""

    def __init__(self, starts: Iterable[datetime], zone: tzinfo, last: timedelta = timedelta(0)) -> None:
        """`last` is the length of the last stretch, if it is drawn too."""
        ordered = sorted(starts) or [datetime.fromtimestamp(0, UTC)]
        self.zone = zone
        self.start = ordered[0]
        self.end = max(ordered[-1] + last, ordered[0] + timedelta(seconds=1))

    def x(self, moment: datetime) -> float:
        """The place of a moment as a share of the width."""
        return min(max((moment - self.start) / (self.end - self.start), 0.0), 1.0)

    def inside(self, deploys: Iterable[DeployMark]) -> list[DeployMark]:
        """The deploys within the time, in order."""
        found = (mark for mark in deploys if self.start <= mark.at <= self.end)
        return sorted(found, key=lambda mark: mark.at)

    def clock(self, moment: datetime) -> str:
        """The moment in the reader's zone."""
        return f"{moment.astimezone(self.zone):%Y-%m-%d %H:%M}"

    def table_rows(self, rows: Iterable[tuple[datetime, Sequence[str]]]) -> list[Sequence[str]]:
        """The cells of these moments in order, each line named by its moment."""
        return [(self.clock(at), *cells) for at, cells in sorted(rows, key=lambda row: row[0])]

    def draw_times(self, y: float) -> Iterator[Markup]:
        """Round times of the zone, or days of a longer stretch."""
        for x, words, look in place_labels(self._times(7), self._times(4)):
            yield element(
                "text", words, x=percent(x), y=y, text_anchor="middle", class_=f"chart-axis {look}".rstrip()
            )

    def _times(self, count: int) -> list[Label]:
        wanted = (self.end - self.start) / count
        step = next((each for each in _STEPS if each >= wanted), max(_STEPS[-1], wanted))
        form = "%H:%M" if step < timedelta(days=1) else "%d %b"
        offset = self.start.astimezone(self.zone).utcoffset() or timedelta(0)
        first = -((_EPOCH - offset - self.start) // step) * step + _EPOCH - offset
        moments = [first + step * number for number in range(max((self.end - first) // step + 1, 0))]
        return [(self.x(moment), f"{moment.astimezone(self.zone):{form}}") for moment in moments]

    def draw_deploys(self, deploys: Iterable[DeployMark], top: float, bottom: float) -> Iterator[Markup]:
        """A dotted line for each deploy, named by its version if there is room."""
        marks = self.inside(deploys)
        for mark in marks:
            column = percent(self.x(mark.at))
            title = element("title", f"{mark.version}, since {self.clock(mark.at)}")
            yield element("line", title, x1=column, y1=top - 6, x2=column, y2=bottom, class_="chart-deploy")
            flag = element("path", d=FLAG, class_="chart-deploy-flag")
            yield element("svg", flag, x=column, y=top - 12, class_="chart-over")
        labels = [(self.x(mark.at), mark.version[:_MAX_VERSION]) for mark in marks]
        for x, words, look in place_labels(labels, beside=True):
            is_left = x > 0.5
            yield element(
                "text",
                words,
                x=percent(x),
                dx=BESIDE[0 if is_left else 1],
                y=top - 6,
                text_anchor="end" if is_left else None,
                class_=f"chart-axis {look}".rstrip(),
            )


def draw_level(y: float, words: str, look: str = "chart-rule") -> Iterator[Markup]:
    """A line across at this height, with its value at the left."""
    yield element("line", x1=0, y1=y, x2="100%", y2=y, class_=look)
    yield element("text", words, x=-6, y=y + 4, text_anchor="end", class_="chart-axis")
