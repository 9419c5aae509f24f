"""Failures, and the last observations of an attempt before it was stopped or died."""

from collections.abc import Callable
from enum import StrEnum
from typing import Self

from pydantic import Field

from warrener_contracts.events.data import EventData
from warrener_contracts.fields import Sentence, StackTrace, is_unset, is_zero, optional_field


class FlightRecord(EventData, frozen=True):
    """The last observations of an attempt before it was stopped or died; unknown ones are left out."""

    stacks: StackTrace | None = Field(default=None, description="Of all threads and tasks.")
    log: StackTrace | None = Field(default=None, description="The last lines of its outputs.")
    progress: float | None = Field(default=None, ge=0.0, le=1.0)
    progress_note: Sentence | None = None
    cpu_seconds: float | None = Field(
        default=None, ge=0, description="Processor time, with that of its child processes."
    )
    memory_bytes: int | None = Field(default=None, ge=0, description="With that of its child processes.")
    processes: int | None = Field(default=None, ge=0)
    threads: int | None = Field(default=None, ge=0)
    open_files: int | None = Field(default=None, ge=0)

    def with_texts(self, change: Callable[[str], str]) -> Self:
        """The same with its texts changed: secrets are hidden in them."""
        texts = {name: getattr(self, name) for name in ("stacks", "log", "progress_note")}
        return self.model_copy(update={name: text and change(text) for name, text in texts.items()})


class ErrorKind(StrEnum):
    """The kind of a failure: it decides who is to blame and if a retry may help."""

    ERROR = "error"  # the handler raised
    TIMEOUT = "timeout"  # it ran too long
    CRASH = "crash"  # its executor died
    BAD_ARGUMENTS = "bad_arguments"  # the handler's signature refused them
    BAD_RESULT = "bad_result"  # the result does not fit its declaration, or JSON cannot carry it
    LOST = "lost"  # its agent fell silent
    NOT_STARTED = "not_started"  # no agent took it in time


NOT_PUBLIC = "its job type is not public"
"""The message of an error whose text only replies and the store have."""


class ErrorInfo(EventData, frozen=True):
    """A failure, described for a person."""

    kind: ErrorKind
    type: Sentence = Field(description="The exception's class, the end of its process, or the kind again.")
    message: Sentence
    stack: StackTrace | None = None
    retryable: bool = Field(default=True, description="False: no retry can mend it.")
    flight_record: FlightRecord | None = optional_field(
        "Observations before it was stopped, or before its process died."
    )
    no_retry_by_policy: bool = Field(
        default=False,
        exclude_if=is_unset,
        description="The policy of its job type names its class as not retryable: "
        "the policy of the job decides.",
    )
    base_classes: tuple[Sentence, ...] = Field(
        default=(),
        max_length=20,
        exclude_if=is_unset,
        description="The classes that the exception's class derives from, the nearest first.",
    )
    crashes: tuple[Sentence, ...] = Field(
        default=(),
        exclude_if=is_unset,
        description="How attempts of the job have ended with their executor or their agent so far; "
        "set by the supervisor.",
    )
    crashes_omitted: int = Field(
        default=0,
        ge=0,
        exclude_if=is_zero,
        description="Number of further crashes, those after the first ones that `crashes` names.",
    )

    def without_text(self) -> "ErrorInfo":
        """The error as everybody may read it: kind and class, no texts or observations of the attempt."""
        return self.model_copy(update={"message": NOT_PUBLIC, "stack": None, "flight_record": None})

    def with_texts(self, change: Callable[[str], str]) -> Self:
        """The same with its message, stack and flight record changed: secrets are hidden in them."""
        record = self.flight_record and self.flight_record.with_texts(change)
        return self.model_copy(
            update={
                "message": change(self.message),
                "stack": self.stack and change(self.stack),
                "flight_record": record,
            }
        )
