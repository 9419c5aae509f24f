"""The log lines of attempts: best effort, bounded, and apart from the reports about attempts."""

from typing import Annotated, Literal

from pydantic import Field

from warrener_contracts.events.attempts import AttemptData
from warrener_contracts.events.data import EventData
from warrener_contracts.events.envelope import AGENT, SUPERVISOR, Event, Route
from warrener_contracts.fields import LogText, Sentence, Timestamp, is_unset, optional_field
from warrener_contracts.topology import LOGS

TraceId = Annotated[str, Field(pattern=r"^[0-9a-f]{32}$")]
SpanId = Annotated[str, Field(pattern=r"^[0-9a-f]{16}$")]


class LogEntry(EventData, frozen=True):
    """A log record of an attempt, or a line that its process wrote."""

    number: int = Field(
        ge=1,
        le=2**53,
        description="Its number among all lines of the attempt; missing numbers were left out.",
    )
    at: Timestamp
    level: Annotated[str, Field(max_length=20)] | None = Field(
        default=None, description="In lower case, such as `info`; none: a process wrote the line."
    )
    logger: Sentence = Field(
        default="",
        description="Name of the logger; `stdout`, `stderr` or `output` (either of them) for a process.",
    )
    text: LogText = Field(
        description="It may hold line ends and control characters; escape them for display."
    )
    trace_id: TraceId | None = Field(default=None, exclude_if=is_unset)
    span_id: SpanId | None = optional_field("The innermost span around the line.")


class AttemptLoggedData(AttemptData, frozen=True):
    """New lines of an attempt. `started_at` distinguishes the runs of one attempt on several agents."""

    started_at: Timestamp
    lines: tuple[LogEntry, ...] = Field(min_length=1, max_length=10_000)
    final: bool = Field(
        default=False, exclude_if=is_unset, description="True for the last lines of the attempt."
    )


class AttemptLogged(
    Event[AttemptLoggedData],
    frozen=True,
    route=Route(LOGS, "{event}.{job_type}", (AGENT,), (SUPERVISOR,), persistent=False),
):
    """New log lines of an attempt, at most once a second, and at its end; never for one that logs nothing.

    Best effort: an agent that is killed, and a full queue, lose lines.
    """

    type: Literal["attempt.logged.v1"] = "attempt.logged.v1"
