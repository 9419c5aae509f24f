"""The last runs of a schedule as a strip: bars as high as they took long, with signs of states. Pure."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo
from statistics import median

from warrener.render.times import brief
from warrener.render.tones import STATE_SIGNS, Tone
from warrener.web.charts.picture import Picture, draw, facts_table
from warrener.web.charts.svg import Canvas, Markup, element, fit, line_path, link
from warrener_contracts.state_machine import JobState

_HEIGHT, _TOP, _FLOOR = 104.0, 16.0, 72.0  # of the drawing, of the longest bar, of all bars
_STEP, _BAR = 18.0, 13.0  # from bar to bar, width of one
_SMALL = 10.5  # size of texts
_LEFT = 76.0
_ROOM = _LEFT - 8.0  # for a duration at the left
_LONGEST_NOTE = 60  # signs
_MINI, _MINI_STEP, _MINI_BAR = (
    26.0,
    8.0,
    6.0,
)  # of a strip in a list: its height, from bar to bar, width of one


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleRun:
    """One tick and its job. `state` None: the tick requested no job; `note` says why."""

    nominal_at: datetime
    state: JobState | None = None
    duration: timedelta | None = None
    note: str = ""
    href: str | None = None


def draw_strip(
    runs: Sequence[ScheduleRun],
    *,
    title: str,
    name: str = "strip",
    zone: tzinfo = UTC,
    narrow: bool = False,
) -> Picture:
    """Draw the runs, in order, the newest at the right; on a phone the newest that have room."""
    width = 360.0 if narrow else max(_LEFT + _STEP * len(runs) + 12, 240.0)
    shown = runs[-int((width - _LEFT - 12) // _STEP) :] if runs else runs
    lengths = [run.duration for run in shown if run.duration is not None]
    longest = max([*lengths, timedelta(milliseconds=1)])
    canvas = Canvas()
    if lengths:
        _draw_scale(canvas, width, longest, _median(lengths))
    for index, run in enumerate(shown):
        canvas.add(_run(run, _LEFT + index * _STEP, longest, zone))
    if shown:
        first, last = (f"{run.nominal_at.astimezone(zone):%Y-%m-%d %H:%M}" for run in (shown[0], shown[-1]))
        canvas.write(_LEFT, _HEIGHT - 4, first, _SMALL, "chart-axis")
        if canvas.is_free(width - 112, _HEIGHT - 4, 100, _SMALL):
            canvas.write(width - 12, _HEIGHT - 4, last, _SMALL, "chart-axis", "end")
    linked = any(run.href for run in shown)
    words = (title, _summary(shown))
    return draw(
        canvas, _table(title, shown, zone), (width, _HEIGHT), name, words, "chart-strip", linked=linked
    )


def draw_mini_strip(runs: Sequence[ScheduleRun], *, title: str, name: str, zone: tzinfo = UTC) -> Picture:
    """Draw the runs without scale and texts, as high as a line of a list.

    A failure reaches the top and is notched, a run that goes on is hollow, a tick without a job is a dot.
    """
    width = max(len(runs), 1) * _MINI_STEP
    longest = max([*(run.duration for run in runs if run.duration is not None), timedelta(milliseconds=1)])
    canvas = Canvas()
    for index, run in enumerate(runs):
        canvas.add(*_mini_run(run, index * _MINI_STEP + 0.5, longest, zone))
    words = Counter("no job" if run.state is None else run.state.value for run in runs)
    table = facts_table(title, ("state", "runs"), [(state, str(count)) for state, count in words.items()])
    return draw(canvas, table, (width, _MINI), name, (title, _summary(runs)), "chart-strip")


def _mini_run(run: ScheduleRun, x: float, longest: timedelta, zone: tzinfo) -> list[Markup]:
    words = element("title", _words(run, zone))
    if run.state is None:
        return [
            element(
                "circle", words, cx=x + _MINI_BAR / 2, cy=_MINI - 3, r=1.6, class_="chart-point chart-soft"
            )
        ]
    tone = STATE_SIGNS[run.state][1]
    share = 1.0 if tone is Tone.ERROR or run.duration is None else min(run.duration / longest, 1.0)
    y = _MINI - max((_MINI - 2) * share, 3.0)
    box = {"x": x, "y": y, "width": _MINI_BAR, "height": _MINI - y, "rx": 1.0}
    if not run.state.terminal:
        box |= {"x": x + 0.7, "y": y + 0.7, "width": _MINI_BAR - 1.4, "height": _MINI - y - 1.4}
        return [element("rect", words, **box, class_=f"chart-hollow chart-{tone}")]
    bar = element("rect", words, **box, class_=f"chart-bar chart-{tone}")
    if tone is not Tone.ERROR:
        return [bar]
    notch = line_path([(x, _MINI - 9), (x + _MINI_BAR, _MINI - 9), (x + _MINI_BAR / 2, _MINI - 3)]) + "Z"
    return [bar, element("path", d=notch, class_="chart-notch")]


def _draw_scale(canvas: Canvas, width: float, longest: timedelta, middle: timedelta) -> None:
    """Name the longest run and the median, each beside its height."""
    canvas.add(element("line", x1=_LEFT, y1=_FLOOR, x2=width - 12, y2=_FLOOR, class_="chart-rule"))
    y = _height(middle, longest)
    canvas.add(element("line", x1=_LEFT, y1=y, x2=width - 12, y2=y, class_="chart-median"))
    canvas.write(_LEFT - 6, _TOP + 4, fit(brief(longest), _SMALL, _ROOM), _SMALL, "chart-axis", "end")
    if y - 2 > _TOP + 12:
        canvas.write(
            _LEFT - 6, min(y + 4, _FLOOR), fit(brief(middle), _SMALL, _ROOM), _SMALL, "chart-axis", "end"
        )


def _median(lengths: Sequence[timedelta]) -> timedelta:
    return timedelta(seconds=median(length.total_seconds() for length in lengths))


def _height(length: timedelta, longest: timedelta) -> float:
    return _FLOOR - (_FLOOR - _TOP) * min(length / longest, 1.0)


def _run(run: ScheduleRun, x: float, longest: timedelta, zone: tzinfo) -> Markup:
    """A bar, solid once its job is over, and below it the sign of its state."""
    sign, tone = ("·", Tone.SOFT) if run.state is None else STATE_SIGNS[run.state]
    words = _words(run, zone)
    parts = [
        element("rect", element("title", words), x=x, y=_TOP, width=_BAR, height=72.0, class_="chart-touch")
    ]
    if run.duration is not None:
        y = min(_height(run.duration, longest), _FLOOR - 2)
        over = run.state is not None and run.state.terminal
        look = "chart-bar" if over else "chart-hollow"
        inset = 0.0 if over else 0.7
        parts.append(
            element(
                "rect",
                x=x + inset,
                y=y + inset,
                width=_BAR - 2 * inset,
                height=_FLOOR - y - inset,
                rx=2.0,
                class_=f"{look} chart-{tone}",
            )
        )
    parts.append(
        element(
            "text",
            sign,
            x=x + _BAR / 2,
            y=_FLOOR + 13,
            text_anchor="middle",
            class_=f"chart-sign chart-tone-{tone}",
        )
    )
    return link(run.href, words, element("g", *parts, aria_hidden="true" if run.href else None))


def _words(run: ScheduleRun, zone: tzinfo) -> str:
    state = "no job" if run.state is None else run.state.value
    length = "" if run.duration is None else f", {brief(run.duration)}"
    note = f": {run.note[:_LONGEST_NOTE]}" if run.note else ""
    return f"{run.nominal_at.astimezone(zone):%Y-%m-%d %H:%M:%S} {state}{length}{note}"


def _summary(runs: Sequence[ScheduleRun]) -> str:
    good = sum(run.state is JobState.SUCCEEDED for run in runs)
    lengths = [run.duration for run in runs if run.duration is not None]
    middle = f", median {brief(_median(lengths))}, longest {brief(max(lengths))}" if lengths else ""
    return f"{good} of the last {len(runs)} runs succeeded{middle}." if runs else "No run yet."


def _table(title: str, runs: Sequence[ScheduleRun], zone: tzinfo) -> Markup:
    rows = [
        (
            f"{run.nominal_at.astimezone(zone):%Y-%m-%d %H:%M:%S}",
            "no job" if run.state is None else run.state.value,
            "" if run.duration is None else brief(run.duration),
            run.note,
        )
        for run in runs
    ]
    return facts_table(title, ("tick", "state", "duration", "note"), rows)
