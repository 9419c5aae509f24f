"""Rules of schedules that tick on events and on the ends of jobs. Pure data; the calendar has no times of
them."""

from datetime import timedelta
from enum import StrEnum
from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field, model_validator

from warrener_contracts.fields import JobType, PositiveDuration
from warrener_contracts.json_safety import find_unsafe_value, is_array

MAX_CONDITIONS = 20
MAX_UPSTREAMS = 20
_MAX_VALUES = 100
_EVENTS = "warrener.events"  # as topology.EVENTS

ArgumentName = Annotated[str, Field(min_length=1, max_length=120)]
EventArgument = Annotated[
    ArgumentName | None,
    Field(description="The argument of the job that receives the event: id, source, type, time, key, data."),
]


class ConditionOperator(StrEnum):
    """The comparison of the value at a path. A missing value passes `absent` and `differs` alone."""

    EXISTS = "exists"
    ABSENT = "absent"
    EQUALS = "equals"
    DIFFERS = "differs"
    ONE_OF = "one_of"  # the value is the list of values that pass
    LESS = "less"  # the last four: number with number, text with text, by code points
    AT_MOST = "at_most"
    MORE = "more"
    AT_LEAST = "at_least"


ORDERING_OPERATORS = frozenset(
    {ConditionOperator.LESS, ConditionOperator.AT_MOST, ConditionOperator.MORE, ConditionOperator.AT_LEAST}
)


class Condition(BaseModel, frozen=True):
    """A condition on an event. It is data and never executed."""

    path: Annotated[
        str,
        Field(
            pattern=r"^[^.\s]+(\.[^.\s]+)*$",
            max_length=250,
            description="Dotted names of JSON members, from the event on; a number is an index of an array.",
            examples=["data.country", "data.legs.0.origin", "type"],
        ),
    ]
    check: ConditionOperator = ConditionOperator.EQUALS
    value: Any = Field(default=None, description="The value to compare with; none for exists and absent.")

    @model_validator(mode="after")
    def _fits(self) -> "Condition":
        if problem := _explain_mismatch(self.check, self.value) or find_unsafe_value(self.value):
            raise ValueError(problem)
        return self


class EventRule(BaseModel, frozen=True):
    """Ticks on a message of an exchange whose routing key matches and that passes all conditions."""

    kind: Literal["event"] = "event"
    exchange: Annotated[str, Field(min_length=1, max_length=127)] = _EVENTS
    key: Annotated[
        str,
        Field(
            max_length=255,
            description="A topic binding: `*` is one word, `#` any number of words.",
            examples=["job.dead.#", "flights.landed"],
        ),
    ] = "#"
    where: Annotated[tuple[Condition, ...], Field(max_length=MAX_CONDITIONS)] = ()
    debounce: PositiveDuration | None = Field(
        default=None, description="Quiet time before the tick; the last event of a burst counts."
    )
    max_wait: PositiveDuration | None = Field(
        default=None,
        description="Maximum time from the first event to the tick; default ten times the debounce.",
    )
    event_argument: EventArgument = None

    @model_validator(mode="after")
    def _bindable(self) -> "EventRule":
        if self.exchange.startswith("warrener.") and self.exchange != _EVENTS:
            raise ValueError(
                f"expected {_EVENTS} or an exchange of your own, got {self.exchange!r}: the others carry "
                "messages among the services"
            )
        if self.max_wait is not None and self.debounce is None:
            raise ValueError("expected a debounce with max_wait, got none")
        return self

    @property
    def effective_max_wait(self) -> timedelta:
        """Maximum time from the first event of a burst until its tick."""
        return self.max_wait or 10 * (self.debounce or timedelta(0))


class UpstreamEnd(StrEnum):
    """The end of a job that the rule waits for."""

    SUCCEEDED = "succeeded"
    FAILED = "failed"  # dead, or expired
    FINISHED = "finished"  # any end, also cancelled


class Upstream(BaseModel, frozen=True):
    """The jobs of one type, or of one schedule, including those triggered by hand."""

    job_type: JobType | None = None
    schedule: JobType | None = Field(default=None, description="The name of a schedule.")
    end: UpstreamEnd = UpstreamEnd.SUCCEEDED

    @model_validator(mode="after")
    def _either(self) -> "Upstream":
        if (self.job_type is None) == (self.schedule is None):
            raise ValueError("expected either a job_type or a schedule, got both or neither")
        return self

    @property
    def name(self) -> str:
        """Names the upstream, whatever the end; job types have no colon."""
        return f"schedule:{self.schedule}" if self.schedule else str(self.job_type)


class AfterRule(BaseModel, frozen=True):
    """Ticks when a job of the upstream has ended so; of several upstreams, when each has within a window."""

    kind: Literal["after"] = "after"
    upstreams: Annotated[tuple[Upstream, ...], Field(min_length=1, max_length=MAX_UPSTREAMS)]
    within: PositiveDuration | None = Field(
        default=None, description="Maximum time from the first end to the last; needed by several upstreams."
    )
    event_argument: EventArgument = None

    @model_validator(mode="after")
    def _window(self) -> "AfterRule":
        if len({upstream.name for upstream in self.upstreams}) < len(self.upstreams):
            raise ValueError("expected different upstreams, got one of them twice")
        if len(self.upstreams) > 1 and self.within is None:
            raise ValueError("expected within, the window for several upstreams, got none")
        return self


TriggerRule = EventRule | AfterRule


def _explain_mismatch(check: ConditionOperator, value: object) -> str | None:
    """The reason why this comparison cannot use the value; None if it can."""
    match check:
        case ConditionOperator.EXISTS | ConditionOperator.ABSENT if value is not None:
            return f"expected no value for {check}, got {value!r}"
        case ConditionOperator.ONE_OF if not is_array(value) or not 1 <= len(value) <= _MAX_VALUES:
            return f"expected a list of 1 to {_MAX_VALUES} values for one_of"
        case _ if check in ORDERING_OPERATORS and (
            isinstance(value, bool) or not isinstance(value, int | float | str)
        ):
            return f"expected a number or a text for {check}, got {value!r}"
        case _:
            return None
