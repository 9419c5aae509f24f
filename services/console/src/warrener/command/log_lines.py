"""Log lines of attempts as text. Pure. Control characters are escaped: a line may hold any."""

import re
from collections.abc import Iterable, Iterator
from datetime import datetime

from rich.text import Text

from warrener.operations.job_logs import JobLogLine
from warrener.render.jobs import state_text
from warrener.render.outcomes import outcome_text
from warrener.render.times import clock, span
from warrener_store.jobs.rows import AttemptRow, JobRow

_LEVELS = {"warning": "warning", "error": "error", "critical": "error", "debug": "soft"}
_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
_LEVEL_WIDTH = 8


def escape_controls(text: str) -> str:
    """Write control characters as `\\x1b`: they would move the cursor, or hide what stands before them."""
    return _CONTROL.sub(lambda found: _escaped(ord(found[0])), text)


def _escaped(code: int) -> str:
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"


def line_texts(lines: Iterable[JobLogLine]) -> Iterator[Text]:
    """One text for each line, and one for each gap."""
    for line in lines:
        if line.omitted:
            yield gap_text(line.omitted)
        yield _line_text(line)


def gap_text(omitted: int) -> Text:
    """Such as `… 93,412 lines left out`."""
    return Text(f"… {omitted:,} {'line' if omitted == 1 else 'lines'} left out", style="soft")


def _line_text(entry: JobLogLine) -> Text:
    head = Text(f"{_time(entry.at)} ", style="soft")
    level = entry.level or ""
    head.append(f"{level.upper()[:_LEVEL_WIDTH]:<{_LEVEL_WIDTH}} ", style=_LEVELS.get(level, ""))
    head.append(f"{escape_controls(entry.logger)}  ", style="soft")
    first, *more = escape_controls(entry.text).split("\n")
    head.append(first)
    for line in more:
        head.append(f"\n    {line}")
    return head


def _time(moment: datetime) -> str:
    local = moment.astimezone()
    return f"{local:%H:%M:%S}.{local.microsecond // 1000:03}"


def start_text(row: JobRow, number: int, attempts: Iterable[AttemptRow]) -> Text:
    """The first line of an attempt: when it started, and where."""
    past = next((one for one in attempts if one.attempt == number), None)
    started_at = past.started_at if past else (row.started_at if row.attempt == number else None)
    agent_id = past.agent_id if past else row.agent_id
    text = Text(f"attempt {number}", style="key")
    if started_at is not None:
        text.append(f" started {clock(started_at)}", style="soft")
    if agent_id:
        text.append(f" on agent {agent_id}", style="soft")
    return text


def end_text(number: int, attempts: Iterable[AttemptRow]) -> Text | None:
    """The last line of an attempt: its outcome, its duration and its error; None if it is not over."""
    past = next((one for one in attempts if one.attempt == number), None)
    if past is None:
        return None
    text = Text.assemble((f"attempt {number} ", "key"), outcome_text(past.outcome))
    if past.started_at is not None:
        text.append(f" after {span(past.finished_at - past.started_at)}", style="soft")
    if past.error is not None:
        text.append(escape_controls(f": {past.error.type}: {past.error.message}"))
    return text


def job_end_text(row: JobRow) -> Text:
    """The state in which the job has ended."""
    return Text.assemble(("job ", "key"), state_text(row.state))
