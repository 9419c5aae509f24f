"""The waterfall of a job on a terminal: a line for each row, its bars in characters. Pure."""

from collections.abc import Iterator
from typing import Any

from rich.cells import cell_len, set_cell_size
from rich.console import Group
from rich.text import Text

from warrener.render import waterfall_bars
from warrener.render.jobs import id_text, state_text
from warrener.render.screen import GAP
from warrener.render.time_axis import FoldedAxis
from warrener.render.times import brief
from warrener.render.waterfall import Waterfall, WaterfallFacts

_MIN_PLOT, _MAX_PLOT = 20, 100  # columns
_MIN_NAME = 18
_MIN_DETAIL = 24
_SOLID, _TORN, _PLAN, _FOLD, _NOW = "█", "▒", "╌", "⋯", "│"
_WAITS = {
    waterfall_bars.WaitGroup.PLANNED: ("╱", "live"),  # noqa: RUF001 - drawn
    waterfall_bars.WaitGroup.RESOURCE: ("░", "soft"),
    waterfall_bars.WaitGroup.BLOCKED: ("╳", "error"),  # noqa: RUF001 - drawn
    waterfall_bars.WaitGroup.TRANSIT: ("·", "soft"),
    waterfall_bars.WaitGroup.SILENCE: ("~", "warning"),
}
_MARKS = {
    waterfall_bars.MarkKind.ACCEPTED: "◆",
    waterfall_bars.MarkKind.HEARTBEAT: "♥",
    waterfall_bars.MarkKind.CHECKPOINT: "⚑",
    waterfall_bars.MarkKind.DEADLINE: "┃",
    waterfall_bars.MarkKind.END: "◆",
}


def trace_page(facts: WaterfallFacts, waterfall: Waterfall, width: int) -> Group:
    """Render the waterfall for a terminal of this width; words that have no room beside it stand below."""
    row = facts.row
    head = Text.assemble(state_text(row.state), "  ", (row.job_type, "key"), "  ", id_text(row.job_id))
    names = max(cell_len(_name(one)) for one in waterfall.rows)
    plot = _Plot(waterfall, min(names, max(_MIN_NAME, width // 5)), width)
    summary = [Text(f"  {line}", style="soft") for line in _wrap(waterfall.summary, width - 2)]
    return Group(head, *summary, Text(), *plot.lines(), Text(), *plot.legend(width))


class _Plot:
    """The columns of a page: name, bars, length, and the rest for words."""

    def __init__(self, waterfall: Waterfall, name_width: int, width: int) -> None:
        self.waterfall, self.name_width = waterfall, name_width
        self.length_width = max(cell_len(waterfall_bars.length_text(row)) for row in waterfall.rows)
        room = width - name_width - self.length_width - 3 * GAP
        self.beside = room >= _MIN_PLOT + _MIN_DETAIL
        share = room - max(room * 2 // 5, _MIN_DETAIL) if self.beside else room
        self.plot_width = max(min(share, _MAX_PLOT), _MIN_PLOT)
        self.detail_width = max(room - self.plot_width, _MIN_DETAIL)

    def lines(self) -> Iterator[Text]:
        """A line for each row, more for words that need them, and the axis."""
        for row in self.waterfall.rows:
            name = _name(row)
            if cell_len(name) > self.name_width:
                name = f"{set_cell_size(name, self.name_width - 1).rstrip()}…"
            line = Text(set_cell_size(name, self.name_width), style=row.tone or "")
            line.append(" " * GAP).append_text(self._bars(row)).append(" " * GAP)
            line.append(waterfall_bars.length_text(row).rjust(self.length_width), style="soft").append(
                " " * GAP
            )
            words = _wrap(row.detail, self.detail_width)
            indent, style = self.name_width + self.plot_width + self.length_width + 3 * GAP, ""
            if self.beside:
                line.append(words.pop(0) if words else "")
            else:
                words = _wrap(row.detail, self.plot_width)
                indent, style = self.name_width + GAP, "soft"
            yield line
            yield from (Text(" " * indent + each, style=style) for each in words)
        yield Text(" " * (self.name_width + GAP)).append_text(self._axis())

    def legend(self, width: int) -> list[Text]:
        """Explain the characters that the bars have."""
        lines: list[Text] = []
        for look, group, words in waterfall_bars.legend_of(self.waterfall.rows):
            sign, style = _WAITS[group] if group is not None else (_SOLID, "live")
            shown = Text(_PLAN * 2 if look is waterfall_bars.BarLook.PLANNED else sign * 2, style=style)
            shown.append(f" {words}   ", style="soft")
            if not lines or lines[-1].cell_len + shown.cell_len > width:
                lines.append(Text("  "))
            lines[-1].append_text(shown)
        return lines

    def _column(self, position: float) -> int:
        return min(int(position * self.plot_width), self.plot_width - 1)

    def _bars(self, row: waterfall_bars.WaterfallRow) -> Text:
        axis = self.waterfall.axis
        cells = [(" ", "")] * self.plot_width
        if self.waterfall.now is not None:
            cells[self._column(axis.position(self.waterfall.now))] = (_NOW, "live")
        # What runs covers what waits, of which a short one would have no character otherwise.
        for bar in sorted(row.bars, key=lambda bar: bar.look is waterfall_bars.BarLook.SOLID):
            self._draw(bar, axis, cells)
        for mark in row.marks:
            if mark.kind is not waterfall_bars.MarkKind.ACCEPTED:
                cells[self._column(axis.position(mark.at))] = (_MARKS[mark.kind], mark.tone)
        line = Text()
        for sign, style in cells:
            line.append(sign, style=style)
        return line

    def _draw(self, bar: waterfall_bars.WaterfallBar, axis: FoldedAxis, cells: list[tuple[str, str]]) -> None:
        start = self._column(axis.position(bar.start))
        end = max(self._column(axis.position(bar.end)), start + 1)
        if axis.position(bar.end) >= 1.0:
            end = self.plot_width
        sign, style = _SOLID, str(bar.tone)
        if bar.look is waterfall_bars.BarLook.HATCHED:
            sign, style = _WAITS[bar.group or waterfall_bars.WaitGroup.RESOURCE]
        elif bar.look is waterfall_bars.BarLook.PLANNED:
            sign = _PLAN
        for column in range(start, end):
            cells[column] = (sign, style)
        if bar.ragged and bar.look is waterfall_bars.BarLook.SOLID and end - start > 1:
            cells[end - 1] = (_TORN, style)
        for fold in axis.folds:
            if bar.start <= fold.start and fold.end <= bar.end:
                middle = (axis.position(fold.start) + axis.position(fold.end)) / 2
                cells[self._column(middle)] = (_FOLD, "key")

    def _axis(self) -> Text:
        """Times under the bars, as many as have room; the lengths of folds and now come first."""
        axis, line = self.waterfall.axis, [" "] * self.plot_width
        now = self.waterfall.now
        wanted = [] if now is None else [(axis.position(now), "now")]
        wanted += [
            ((axis.position(fold.start) + axis.position(fold.end)) / 2, f"{_FOLD}{brief(fold.length)}")
            for fold in axis.folds
        ]
        wanted += [(tick.position, tick.text) for tick in axis.ticks(max(self.plot_width // 12, 2))]
        for position, text in wanted:
            start = min(max(self._column(position) - len(text) // 2, 0), self.plot_width - len(text))
            place = slice(max(start - 1, 0), start + len(text) + 1)
            if start >= 0 and not "".join(line[place]).strip():
                line[start : start + len(text)] = text
        return Text("".join(line), style="soft")


def _name(row: waterfall_bars.WaterfallRow) -> str:
    indent = "  " if row.kind is waterfall_bars.RowKind.CHILD_JOB else ""
    return f"{indent}{row.sign} {row.name}" if row.sign else f"{indent}{row.name}"


def _wrap(text: str, width: int) -> list[str]:
    """Lines of at most this many columns, broken between words where that is possible."""
    lines: list[str] = []
    for word in text.split():
        rest = word
        if lines and cell_len(f"{lines[-1]} {rest}") <= width:
            lines[-1] += f" {rest}"
            continue
        while cell_len(rest) > width:
            piece = set_cell_size(rest, width).rstrip() or rest[:1]
            lines.append(piece)
            rest = rest[len(piece) :]
        if rest:
            lines.append(rest)
    return lines


def trace_data(facts: WaterfallFacts, waterfall: Waterfall) -> dict[str, Any]:
    """The waterfall as JSON data: every bar with its cause and its length in seconds."""
    return {
        "job_id": facts.row.job_id,
        "job_type": facts.row.job_type,
        "state": facts.row.state,
        "requested_at": facts.row.requested_at,
        "finished_at": facts.row.finished_at,
        "now": facts.now,
        "summary": waterfall.summary,
        "rows": [_row_data(row) for row in waterfall.rows],
    }


def _row_data(row: waterfall_bars.WaterfallRow) -> dict[str, Any]:
    return {
        "kind": row.kind,
        "name": row.name,
        "detail": row.detail,
        "attempt": row.attempt,
        "job_id": row.job_id,
        "bars": [
            {
                "cause": bar.text,
                "look": bar.look,
                "group": bar.group,
                "start": bar.start,
                "end": bar.end,
                "seconds": bar.length.total_seconds(),
                "ragged": bar.ragged,
            }
            for bar in row.bars
        ],
        "marks": [{"kind": mark.kind, "at": mark.at, "text": mark.text} for mark in row.marks],
    }
