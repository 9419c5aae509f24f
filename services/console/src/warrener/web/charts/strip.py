"""The last runs of a schedule as a strip: bars as high as they took long, with signs of states. Pure."""

from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import UTC, timedelta, tzinfo
from statistics import median

from warrener.operations.schedules import ListedTick
from warrener.render.times import brief
from warrener.render.tones import STATE_SIGNS, Tone
from warrener.web.charts.over_time import draw_level
from warrener.web.charts.picture import Picture, draw, facts_table
from warrener.web.charts.svg import Attributes, Markup, element, line_path, link
from warrener_contracts.state_machine import JobState

_HEIGHT, _TOP, _FLOOR = 108.0, 14.0, 74.0  # of the drawing, of the longest bar, of all bars
_STEP, _BAR = 17.0, 12.5  # from bar to bar, width of one
_NARROW_RUNS = 13  # that a narrow place shows
_MIN_NAMED = 13  # runs with room for two names of times below them
_MIN_BETWEEN = 12.0  # from the name of one level to the next
_LONGEST_NOTE = 60  # signs
_MINI, _MINI_STEP, _MINI_BAR = 26.0, 8.0, 6.0  # of a strip in a list: its height, from bar to bar, width


def draw_strip(runs: Sequence[ListedTick], *, title: str, zone: tzinfo = UTC) -> Picture:
    """Draw the runs, in order, the newest at the right; in a narrow place the newest that have room."""
    lengths = [run.duration for run in runs if run.duration is not None]
    longest = max([*lengths, timedelta(milliseconds=1)])
    # From the right end on, so that the newest run is there in a place of any width.
    bars = [_run(run, index - len(runs), longest, zone) for index, run in enumerate(runs)]
    behind = element("g", *_draw_scale(lengths), *_draw_times(runs, zone), aria_hidden="true")
    parts = [behind, element("svg", *bars, x="100%", class_="chart-over")]
    size = (max(len(runs), 1) * _STEP, _HEIGHT)
    linked = any(run.state is not None for run in runs)
    header = ("tick", "state", "duration", "note")
    table = facts_table(title, header, [_facts(run, zone) for run in runs])
    drawing = draw(parts, size, "strip", (title, _summary(runs)), "chart-strip", linked=linked)
    return Picture(drawing, table, fills_its_place=True)


def draw_mini_strip(runs: Sequence[ListedTick], *, title: str, name: str, zone: tzinfo = UTC) -> Picture:
    """Draw the runs without scale and texts, as high as a line of a list.

    A failure reaches the top and is notched, a run that goes on is hollow, a tick without a job is a dot.
    """
    width = max(len(runs), 1) * _MINI_STEP
    longest = max([*(run.duration for run in runs if run.duration is not None), timedelta(milliseconds=1)])
    parts = [
        part
        for index, run in enumerate(runs)
        for part in _mini_run(run, index * _MINI_STEP + 0.5, longest, zone)
    ]
    states = Counter("no job" if run.state is None else run.state.value for run in runs)
    table = facts_table(title, ("state", "runs"), [(state, str(count)) for state, count in states.items()])
    return Picture(draw(parts, (width, _MINI), name, (title, _summary(runs)), "chart-mini-strip"), table)


def _mini_run(run: ListedTick, x: float, longest: timedelta, zone: tzinfo) -> list[Markup]:
    words = element("title", _words(run, zone))
    if run.state is None:
        box: Attributes = {"cx": x + _MINI_BAR / 2, "cy": _MINI - 3, "r": 1.6}
        return [element("circle", words, **box, class_="chart-point chart-soft")]
    tone = STATE_SIGNS[run.state][1]
    share = 1.0 if tone is Tone.ERROR or run.duration is None else min(run.duration / longest, 1.0)
    bar = _bar(run.state, (x, _MINI - max((_MINI - 2) * share, 3.0)), (_MINI_BAR, _MINI), words)
    if tone is not Tone.ERROR:
        return [bar]
    notch = line_path([(x, _MINI - 9), (x + _MINI_BAR, _MINI - 9), (x + _MINI_BAR / 2, _MINI - 3)]) + "Z"
    return [bar, element("path", d=notch, class_="chart-notch")]


def _bar(
    state: JobState | None, corner: tuple[float, float], end: tuple[float, float], *content: Markup
) -> Markup:
    """A bar of a width down to a floor, solid once its job is over."""
    (x, y), (width, floor) = corner, end
    over = state is not None and state.terminal
    look, inset = ("chart-bar", 0.0) if over else ("chart-hollow", 0.7)
    tone = Tone.SOFT if state is None else STATE_SIGNS[state][1]
    box: Attributes = {
        "x": x + inset,
        "y": y + inset,
        "width": width - 2 * inset,
        "height": floor - y - 2 * inset,
    }
    return element("rect", *content, **box, rx=1.5, class_=f"{look} chart-{tone}")


def _draw_scale(lengths: Sequence[timedelta]) -> Iterator[Markup]:
    """Name the longest run and the median, each beside its height."""
    if not lengths:
        return
    middle, longest = _median(lengths), max([*lengths, timedelta(milliseconds=1)])
    yield element("line", x1=0, y1=_FLOOR, x2="100%", y2=_FLOOR, class_="chart-rule")
    yield element("text", brief(longest), x=-6, y=_TOP + 4, text_anchor="end", class_="chart-axis")
    y = _height(middle, longest)
    yield from draw_level(y, brief(middle) if y > _TOP + _MIN_BETWEEN else "", "chart-median")


def _draw_times(runs: Sequence[ListedTick], zone: tzinfo) -> Iterator[Markup]:
    """Name the first run that is shown in a place of each width, and the last one."""
    named = [(0, "chart-wide"), (max(len(runs) - _NARROW_RUNS, 0), "chart-narrow")] if runs else []
    for index, look in named:
        words = _clock(runs[index], zone)
        yield element("text", words, x=0, y=_HEIGHT - 4, class_=f"chart-axis {look}")
    if len(runs) >= _MIN_NAMED:
        words = _clock(runs[-1], zone)
        place: Attributes = {"x": "100%", "y": _HEIGHT - 4}
        yield element("text", words, **place, text_anchor="end", class_="chart-axis")


def _clock(run: ListedTick, zone: tzinfo) -> str:
    return f"{run.nominal_at.astimezone(zone):%Y-%m-%d %H:%M}"


def _median(lengths: Sequence[timedelta]) -> timedelta:
    return timedelta(seconds=median(length.total_seconds() for length in lengths))


def _height(length: timedelta, longest: timedelta) -> float:
    return _FLOOR - (_FLOOR - _TOP) * min(length / longest, 1.0)


def _run(run: ListedTick, place: int, longest: timedelta, zone: tzinfo) -> Markup:
    """A bar, and below it the sign of its state; `place`: -1 for the newest run, -2 for the one before."""
    x, words = place * _STEP, _words(run, zone)
    sign, tone = ("·", Tone.SOFT) if run.state is None else STATE_SIGNS[run.state]
    box: Attributes = {"x": x, "y": _TOP, "width": _BAR, "height": 72.0}
    parts = [element("rect", element("title", words), **box, class_="chart-touch")]
    if run.duration is not None:
        y = min(_height(run.duration, longest), _FLOOR - 2)
        parts.append(_bar(run.state, (x, y), (_BAR, _FLOOR)))
    look = f"chart-sign chart-tone-{tone}"
    below: Attributes = {"x": x + _BAR / 2, "y": _FLOOR + 14, "text_anchor": "middle"}
    parts.append(element("text", sign, **below, class_=look))
    href = None if run.state is None else f"/jobs/{run.job_id}"
    drawn = link(href, words, element("g", *parts, aria_hidden="true"))
    return drawn if place >= -_NARROW_RUNS else element("g", drawn, class_="chart-wide")


def _facts(run: ListedTick, zone: tzinfo) -> tuple[str, str, str, str]:
    """Moment, state, duration, and why a tick is as it is; of one without a job at least its status."""
    length = "" if run.duration is None else brief(run.duration)
    moment = f"{run.nominal_at.astimezone(zone):%Y-%m-%d %H:%M:%S}"
    if run.state is None:
        return moment, "no job", length, run.reason or run.status.value
    return moment, run.state.value, length, run.reason


def _words(run: ListedTick, zone: tzinfo) -> str:
    moment, state, length, note = _facts(run, zone)
    noted = f": {note[:_LONGEST_NOTE]}" if note else ""
    return f"{moment} {state}{f', {length}' if length else ''}{noted}"


def _summary(runs: Sequence[ListedTick]) -> str:
    good = sum(run.state is JobState.SUCCEEDED for run in runs)
    lengths = [run.duration for run in runs if run.duration is not None]
    middle = f", median {brief(_median(lengths))}, longest {brief(max(lengths))}" if lengths else ""
    return f"{good} of the last {len(runs)} runs succeeded{middle}." if runs else "No run yet."
