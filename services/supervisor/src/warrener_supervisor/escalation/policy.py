"""The contents of an escalation file. Frozen; an unknown key is refused."""

from datetime import UTC, time, timedelta, tzinfo
from typing import Annotated, Literal, Self
from zoneinfo import ZoneInfo

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, PlainSerializer, model_validator

from warrener_contracts.fields import DeclaredJobType, Duration, JsonSafeObject, QueueName
from warrener_contracts.json_safety import is_array, is_object

LOG = "log"
"""The sink that always exists."""
DAILY = "daily"
"""The digest that always exists."""
DEAD = "job.dead"
"""Kind of an incident whose entries are dead jobs."""
Weekday = Literal["mon", "tue", "wed", "thu", "fri", "sat", "sun"]
WEEK: tuple[Weekday, ...] = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")


def _zone(name: object) -> object:
    if name == "UTC":
        return UTC  # works without time zone files, which a small image may not have
    try:
        return ZoneInfo(name) if isinstance(name, str) else name
    except (KeyError, ValueError, OSError) as error:
        raise ValueError(f"expected a time zone such as Europe/Berlin, got {name!r}") from error


def _several(value: object) -> object:
    """Let one value stand for a list of one."""
    return value if is_array(value) else (value,)


Zone = Annotated[tzinfo, BeforeValidator(_zone), PlainSerializer(str, return_type=str)]


class FileModel(BaseModel):
    """Base of everything in the file."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", populate_by_name=True, arbitrary_types_allowed=True
    )


class SinkConfig(FileModel):
    """Target of alerts: one of apprise, webhook and log. `env:NAME` stands for the value of that variable."""

    apprise: str | None = None
    webhook: str | None = None
    secret: str | None = None
    log: Literal["warning", "error"] | None = None

    @model_validator(mode="after")
    def _one_kind(self) -> Self:
        kinds = [name for name in ("apprise", "webhook", "log") if getattr(self, name) is not None]
        if len(kinds) != 1:
            raise ValueError(f"expected one of apprise, webhook and log, got {' and '.join(kinds) or 'none'}")
        if (self.webhook is None) != (self.secret is None):
            raise ValueError(
                "expected webhook and secret together: what is not signed could come from anyone"
            )
        return self


class QuietPeriod(FileModel):
    """From one time of day to another, possibly past midnight, on the days on which it begins."""

    begin: time = Field(alias="from")
    end: time = Field(alias="to")
    days: tuple[Weekday, ...] = WEEK
    zone: Zone = UTC


class DigestPlan(FileModel):
    """Times and sinks of a digest."""

    at: time = time(8)
    days: Annotated[tuple[Weekday, ...], Field(min_length=1)] = WEEK
    zone: Zone = UTC
    to: Annotated[tuple[str, ...], Field(min_length=1)] = (LOG,)


class EscalationStep(FileModel):
    """One step of a policy. `after` counts from the step before, or from the first occurrence."""

    after: Duration = timedelta(0)


class RetryStep(EscalationStep):
    """Request the dead jobs once more."""

    do: Literal["retry"]


class ParkStep(EscalationStep):
    """Leave the dead jobs as they are until the next step."""

    do: Literal["park"]


class AlertStep(EscalationStep):
    """Send one alert, however many jobs died."""

    do: Literal["alert"]
    to: Annotated[tuple[str, ...], Field(min_length=1)] = (LOG,)
    title: str | None = None
    text: str | None = None
    urgent: bool = False  # quiet hours do not hold it back


class DigestStep(EscalationStep):
    """List the incident in the next digest."""

    do: Literal["digest"]
    into: str = DAILY


class CompensateStep(EscalationStep):
    """Request a job of another type for each dead one."""

    do: Literal["compensate"]
    job_type: DeclaredJobType
    arguments: JsonSafeObject | None = None
    queue: QueueName | None = None


class CloseStep(EscalationStep):
    """Close the incident."""

    do: Literal["close"]


AnyStep = Annotated[
    RetryStep | ParkStep | AlertStep | DigestStep | CompensateStep | CloseStep, Field(discriminator="do")
]
PER_JOB = (RetryStep, CompensateStep)
"""Steps that act on each dead job of an incident."""


class EscalationPolicy(FileModel):
    """The steps for matching incidents, by patterns in which `*` stands for any characters."""

    name: str
    kinds: Annotated[tuple[str, ...], BeforeValidator(_several)] = ("*",)
    job_types: Annotated[tuple[str, ...], BeforeValidator(_several)] = ("*",)
    errors: Annotated[tuple[str, ...], BeforeValidator(_several)] = ("*",)
    quiet: str | None = None
    on_change: Literal["continue", "restart"] = "continue"
    """Effect of this policy, once it is new or edited, on an open incident that follows another version."""
    steps: Annotated[tuple[AnyStep, ...], Field(min_length=1)]


class PolicyDefinition(FileModel):
    """A policy with the quiet hours that it names: all that an incident needs to follow it."""

    policy: EscalationPolicy
    quiet: tuple[QuietPeriod, ...] = ()


def _periods(value: object) -> object:
    return {name: _several(periods) for name, periods in value.items()} if is_object(value) else value


class Escalation(FileModel):
    sinks: dict[str, SinkConfig] = Field(default_factory=dict, alias="sink")
    quiet: Annotated[dict[str, tuple[QuietPeriod, ...]], BeforeValidator(_periods)] = Field(
        default_factory=dict
    )
    digests: dict[str, DigestPlan] = Field(default_factory=dict, alias="digest")
    policies: tuple[EscalationPolicy, ...] = Field(default=(), alias="policy")


DEFAULT_ESCALATION_POLICY = EscalationPolicy(name="default", steps=(AlertStep(do="alert"),))
"""EscalationPolicy of incidents that match no other, and of all incidents without a file: one line in the
log."""
DEFAULT_DIGEST = DigestPlan()


def digest_plan(name: str, file: Escalation) -> DigestPlan:
    """Return the plan of a digest. The incidents of a digest that the file no longer declares are reported by
    the plan of another one, so that they do not end in the log."""
    if name in file.digests or name == DAILY:
        return file.digests.get(name, DEFAULT_DIGEST)
    return next(iter(file.digests.values()), DEFAULT_DIGEST)
