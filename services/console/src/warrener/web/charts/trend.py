"""Durations and successes over time, with the moments of deploys; nothing is drawn for what nobody measured.
Pure."""

from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime, timedelta, tzinfo
from itertools import groupby

from warrener.render.times import brief
from warrener.web.charts.picture import Picture, draw, facts_table, legend, stretch
from warrener.web.charts.svg import Attributes, Markup, element, join, line_path, percent
from warrener.web.charts.time_frame import FLAG, DeployMark, TimeBucket, TimeFrame, draw_level

_TOP, _DURATION, _BETWEEN, _SUCCESS, _FOOT = 22.0, 140.0, 28.0, 54.0, 20.0  # heights, from top to bottom
_FLOOR = _TOP + _DURATION + _BETWEEN + _SUCCESS
_MIN_SEEN = 3.0  # height of the bar of a failure
_MAX_BAR = 0.012  # share of the width
_NICE_SECONDS = (
    *(base * 10.0**power for power in range(-3, 2) for base in (1.0, 2.0, 5.0) if base * 10.0**power < 60),
    *(count * 60.0 for count in (1, 2, 4, 10, 20, 30)),
    *(count * 3600.0 for count in (1, 2, 4, 8, 12, 24, 48, 96, 240, 480)),
)


def draw_trend(
    buckets: Sequence[TimeBucket], *, title: str, deploys: Sequence[DeployMark] = (), zone: tzinfo = UTC
) -> Picture:
    """Draw durations above and the share of successes below, on one time axis from bucket to bucket."""
    buckets = sorted(buckets, key=lambda each: each.start)
    frame = TimeFrame([each.start for each in buckets], zone)
    shown = frame.inside(deploys)
    parts = [*_draw_axes(top := _top_value(buckets)), *frame.draw_times(_FLOOR + 15)]
    parts += frame.draw_deploys(shown, _TOP, _FLOOR)
    parts += [_draw_failures(bucket, frame, len(buckets)) for bucket in buckets if bucket.failed]
    parts += _draw_lines(buckets, frame, top)
    drawing = draw(parts, ("100%", _FLOOR + _FOOT), "trend", (title, _summary(buckets)), "chart-trend")
    table = _table(title, buckets, frame, shown)
    return Picture(join([drawing, legend(_swatches(has_deploys=bool(shown)))]), table, fills_its_place=True)


def _top_value(buckets: Sequence[TimeBucket]) -> timedelta:
    """The next round duration: its half is one too."""
    measured = [each for bucket in buckets for each in (bucket.p50, bucket.p95) if each is not None]
    seconds = max([*measured, timedelta(milliseconds=1)]).total_seconds()
    return timedelta(seconds=next((size for size in _NICE_SECONDS if size >= seconds), seconds))


def _y(length: timedelta | None, top: timedelta) -> float:
    return _TOP + _DURATION * (1 - min(max((length or timedelta(0)) / top, 0.0), 1.0))


def _y_ratio(ratio: float | None) -> float:
    return _FLOOR - _SUCCESS * (ratio or 0.0)


def _draw_axes(top: timedelta) -> Iterator[Markup]:
    for share in (0.0, 0.5, 1.0):
        yield from draw_level(_y(top * share, top), brief(top * share) if share else "0")
    for ratio in (0.0, 1.0):
        yield from draw_level(_y_ratio(ratio), f"{ratio:.0%}")
    yield element("text", "success", x=0, y=_y_ratio(1.0) - 9, class_="chart-axis chart-tone-good")


def _draw_failures(bucket: TimeBucket, frame: TimeFrame, count: int) -> Markup:
    """A bar that hangs from above, as long as the share of failures; the least one can be seen."""
    words = element("title", f"{frame.clock(bucket.start)}, {bucket.failed} failed")
    width = min(0.7 / count, _MAX_BAR)
    x = min(max(frame.x(bucket.start) - width / 2, 0.0), 1.0 - width)
    height = max(_y_ratio(bucket.ratio) - _y_ratio(1.0), _MIN_SEEN)
    box: Attributes = {"x": percent(x), "width": percent(width), "y": _y_ratio(1.0), "height": height}
    return element("rect", words, **box, class_="chart-bar chart-error")


def _draw_lines(buckets: Sequence[TimeBucket], frame: TimeFrame, top: timedelta) -> Iterator[Markup]:
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
    yield stretch(_FLOOR, *paths)


def _runs(buckets: Sequence[TimeBucket], value: Callable[[TimeBucket], object]) -> Iterator[list[TimeBucket]]:
    """The stretches of buckets that have a value."""
    for measured, group in groupby(buckets, lambda each: value(each) is not None):
        if measured:
            yield list(group)


def _swatches(*, has_deploys: bool) -> Iterator[tuple[Markup, str]]:
    for words, look in (("p50", "chart-live"), ("p95", "chart-line-second chart-live")):
        yield element("line", x1=0, y1=5, x2=18, y2=5, class_=f"chart-line {look}"), words
    yield element("rect", x=7, width=4, height=10, class_="chart-bar chart-error"), "failures"
    if has_deploys:
        yield element("path", d=FLAG, transform="translate(6 2)", class_="chart-deploy-flag"), "deploy"


def _summary(buckets: Sequence[TimeBucket]) -> str:
    succeeded = sum(bucket.succeeded for bucket in buckets)
    failed = sum(bucket.failed for bucket in buckets)
    if not succeeded + failed:
        return "No job ended in this time."
    last = next((bucket for bucket in reversed(buckets) if bucket.p50 is not None), None)
    newest = ""
    if last is not None and last.p50 is not None:
        newest = f" Last median {brief(last.p50)}" + (f", p95 {brief(last.p95)}." if last.p95 else ".")
    return f"{succeeded} succeeded, {failed} failed.{newest}"


def _table(
    title: str, buckets: Sequence[TimeBucket], frame: TimeFrame, deploys: Sequence[DeployMark]
) -> Markup:
    rows: list[tuple[datetime, Sequence[str]]] = []
    for each in buckets:
        lengths = ("" if length is None else brief(length) for length in (each.p50, each.p95))
        rows.append((each.start, (str(each.succeeded), str(each.failed), *lengths, "")))
    rows += [(mark.at, ("", "", "", "", mark.version)) for mark in deploys]
    header = ("from", "succeeded", "failed", "p50", "p95", "deployed")
    return facts_table(title, header, frame.table_rows(rows))
