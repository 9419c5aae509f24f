"""The log lines of one attempt that wait to be published: the last ones, within limits.

Lines come from any thread, and raw output from processes. Adding costs little, whatever a handler logs: a
line more than the limits allow replaces the oldest, and output is taken apart only when lines are published.
"""

import json
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from operator import itemgetter
from typing import NamedTuple

from warrener_agent.secret_values import hide_texts
from warrener_contracts.events import AttemptDispatchedData
from warrener_runtime.log_scopes import LoggedLine, capture_lock, is_rendered_record, line_of_event
from warrener_runtime.secrets import mask

_SMALL_PIECE = 4096
"""Bytes below which a piece of output is joined with the next: a process may write byte by byte."""


class LogLimits(NamedTuple):
    """Limits of one attempt: bytes and number of lines, and the characters of a line."""

    size: int
    lines: int
    line_size: int


def attempt_fields(dispatch: AttemptDispatchedData) -> dict[str, object]:
    """Return the facts that stand in each log line of an attempt."""
    return {"job_id": str(dispatch.job_id), "job_type": dispatch.job_type, "attempt": dispatch.attempt}


class NumberedLine(NamedTuple):
    """A line with its number among all lines of its attempt, those left out included."""

    number: int
    line: LoggedLine
    size: int


@dataclass(eq=False, slots=True)
class SharedSize:
    """Bytes of the lines of several buffers, and their limit."""

    limit: int
    size: int = 0


@dataclass(eq=False, slots=True)
class LogBuffer:
    """The last unpublished lines of one attempt. The first line calls `on_first`; without lines nothing does.
    `secrets` are hidden in all of them.

    A published line stays until it is confirmed (`discard_through`).
    """

    _limits: LogLimits
    _shared: SharedSize
    _on_first: Callable[["LogBuffer"], None] | None
    _secrets: tuple[str, ...] = ()
    _lines: deque[NumberedLine] = field(default_factory=deque[NumberedLine])
    _size: int = 0
    _outputs: "dict[str, OutputTail] | None" = None
    _is_closed: bool = False
    count: int = 0

    def close(self) -> None:
        """Drop all lines, and those that a task or a thread of the attempt logs from now on."""
        with capture_lock():
            self._is_closed, self._on_first = True, None
            self._lines.clear()
            self._resize(-self._size)
            self._outputs = None

    def add(self, line: LoggedLine) -> None:
        """Take a line. Called under `capture_lock`."""
        if self._is_closed:
            return
        self.count += 1
        text = cut_line(self.hide(line.text), self._limits.line_size)
        size = len(text) if text.isascii() else len(text.encode(errors="surrogatepass"))
        self._lines.append(NumberedLine(self.count, line._replace(text=text), size))
        self._resize(size)
        while len(self._lines) > 1 and self._is_over():
            self._resize(-self._lines.popleft().size)
        self._begin()

    def hide(self, text: str) -> str:
        """Hide the secrets of the attempt's arguments."""
        return hide_texts(text, self._secrets) if self._secrets else text

    def add_output(self, stream: str, piece: bytes) -> None:
        """Take output of a process, in pieces of any length. Called in the event loop."""
        if self._is_closed:
            return
        outputs = self._outputs
        if outputs is None:
            outputs = self._outputs = {}
        if stream not in outputs:
            outputs[stream] = OutputTail(stream, self._limits)
        outputs[stream].add(datetime.now(UTC), piece)
        self._begin()

    def take_output(self, *, whole: bool) -> None:
        """Turn the output so far into lines. `whole`: an unfinished line counts too: nothing follows."""
        if not self._outputs:
            return
        taken = [output.take(whole=whole) for output in self._outputs.values()]
        with capture_lock():
            self.count += sum(omitted for omitted, _ in taken)
            # By arrival: a record names the time at which it was made, before the line ahead of it arrived.
            for _, line in sorted((each for _, lines in taken for each in lines), key=itemgetter(0)):
                self.add(line)

    def first_lines(self, max_size: int) -> list[NumberedLine]:
        """Return the oldest lines, together at most `max_size` bytes, but at least one if there is any."""
        found: list[NumberedLine] = []
        with capture_lock():
            for one in self._lines:
                max_size -= one.size
                if found and max_size < 0:
                    break
                found.append(one)
        return found

    def discard_through(self, number: int) -> None:
        """Discard the lines up to this number."""
        with capture_lock():
            while self._lines and self._lines[0].number <= number:
                self._resize(-self._lines.popleft().size)

    @property
    def last_number(self) -> int:
        """The number of the last line; 0 if none waits."""
        return self._lines[-1].number if self._lines else 0

    def _is_over(self) -> bool:
        shared = self._shared
        return (
            self._size > self._limits.size
            or len(self._lines) > self._limits.lines
            or shared.size > shared.limit
        )

    def _resize(self, by: int) -> None:
        self._size += by
        self._shared.size += by

    def _begin(self) -> None:
        if self._on_first is not None:
            on_first, self._on_first = self._on_first, None
            on_first(self)


NO_LOG = LogBuffer(LogLimits(0, 0, 0), SharedSize(0), None, _is_closed=True)  # drops all lines


def render_output(output: str) -> str:
    """Write the records in an output of a child process as text for people; other lines stay as they are."""
    return "\n".join(
        line if (found := _read_record(line)) is None else render_line(found) for line in output.split("\n")
    )


def render_line(line: LoggedLine) -> str:
    """Write a line with its time, its level and its logger."""
    time = line.at.astimezone().isoformat(sep=" ", timespec="milliseconds")
    return f"{time} {(line.level or '').upper()} {line.logger}: {line.text}"


def _read_record(line: str | bytes) -> LoggedLine | None:
    if line[:1] not in ("{", b"{"):
        return None
    try:
        record: object = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return line_of_event(record) if is_rendered_record(record) else None


class OutputTail:
    """The end of an output of a process, as raw bytes."""

    def __init__(self, stream: str, limits: LogLimits) -> None:
        self._stream, self._limits = stream, limits
        self._pieces: deque[tuple[datetime, bytes]] = deque()
        self._size = 0
        self._omitted = 0  # line ends that were dropped
        self._is_cut = False  # True if the first line lacks its beginning

    def add(self, at: datetime, piece: bytes) -> None:
        """Add a piece, in place of the oldest ones if there is too much."""
        pieces = self._pieces
        if pieces and len(pieces[-1][1]) < _SMALL_PIECE:
            pieces[-1] = (at, pieces[-1][1] + piece)
        else:
            pieces.append((at, piece))
        self._size += len(piece)
        while self._size - len(pieces[0][1]) >= self._limits.size:
            _, dropped = pieces.popleft()
            self._size -= len(dropped)
            self._omitted += dropped.count(b"\n")
            self._is_cut = not dropped.endswith(b"\n")

    def take(self, *, whole: bool) -> tuple[int, list[tuple[datetime, LoggedLine]]]:
        """Return the number of lines left out, and the lines since, each with the time of its arrival."""
        ended, rest_at = list[tuple[datetime, bytes]](), datetime.now(UTC)
        rest = b""
        for at, piece in self._pieces:
            *lines, rest = (rest + piece).split(b"\n")
            ended += ((at, line) for line in lines)
            rest_at = at
        self._pieces.clear()
        if rest and whole:
            ended.append((rest_at, rest))
        elif rest:
            self._pieces.append((rest_at, rest))
        self._size = sum(len(piece) for _, piece in self._pieces)
        excess = max(0, len(ended) - self._limits.lines)
        omitted, self._omitted = self._omitted + excess, 0
        found = [(at, self._read(at, line)) for at, line in ended[excess:]]
        if found and self._is_cut and not excess:
            at, first = found[0]
            found[0] = at, first._replace(text=f"[the beginning of the line was left out] {first.text}")
        self._is_cut = self._is_cut and not ended
        return omitted, found

    def _read(self, at: datetime, line: bytes) -> LoggedLine:
        if (found := _read_record(line)) is not None:
            return found
        return LoggedLine(at, None, self._stream, mask(line.rstrip(b"\r").decode(errors="replace")))


def cut_line(text: str, limit: int) -> str:
    """Cut a line that is too long, and say so in it."""
    if len(text) <= limit:
        return text
    return f"{text[:limit]}… [{len(text) - limit} more characters were cut off]"


def group_by_size(lines: Iterable[NumberedLine], max_size: int) -> list[list[NumberedLine]]:
    """Split lines, in order, into groups of at most `max_size` bytes; a larger line is a group of its own."""
    groups: list[list[NumberedLine]] = []
    room = 0
    for one in lines:
        if one.size > room or not groups:
            groups.append([])
            room = max_size
        groups[-1].append(one)
        room -= one.size
    return groups
