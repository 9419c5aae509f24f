"""The arguments and results of the two ready-made workflows: a group of jobs, and a chain of jobs."""

from typing import Annotated, Any, Self
from uuid import UUID

from pydantic import AfterValidator, BaseModel, BeforeValidator, Field, model_validator

from warrener_contracts.fields import Duration, JobType, JsonSafeObject, QueueName
from warrener_contracts.json_safety import is_object
from warrener_contracts.policy import PolicyOverrides, find_unknown_field
from warrener_contracts.state_machine import JobState

GROUP, CHAIN = "workflow.group", "workflow.chain"
"""Their job types."""
MAX_MEMBERS = 1_900
"""Jobs of a group, and steps of a chain: the journal of a workflow holds 2,000 calls."""
MAX_FAILURES = 100


def _check_policy(value: object) -> object:
    if is_object(value) and (wrong := find_unknown_field(value)):
        raise ValueError(wrong)
    return value


# Built when they are used: most clients request neither.
class CanvasJob(BaseModel, frozen=True, extra="forbid", defer_build=True):
    """A job type and its arguments."""

    job_type: JobType
    arguments: JsonSafeObject = Field(default_factory=dict)


class CanvasCall(CanvasJob, frozen=True):
    """A job of a group or a chain, with the options of a request."""

    queue: QueueName | None = None
    delay: Duration | None = None
    policy: Annotated[PolicyOverrides | None, BeforeValidator(_check_policy)] = None
    undo: CanvasJob | None = Field(
        default=None, description="Undoes the job if the group or the chain does not succeed."
    )


class GroupMember(CanvasCall, frozen=True):
    """A job of a group."""

    key: Annotated[str, Field(min_length=1, max_length=100)] | None = Field(
        default=None, description="Names the member; None: its index does."
    )


class ChainStep(CanvasCall, frozen=True):
    """A step of a chain, or the job that follows a group."""

    result_argument: Annotated[str, Field(min_length=1, max_length=200)] | None = Field(
        default=None,
        description="The argument that gets the result of the step before, or the results of the group.",
    )

    @model_validator(mode="after")
    def _check_argument(self) -> Self:
        if self.result_argument in self.arguments:
            raise ValueError(
                f"expected {self.result_argument!r} as result_argument or in arguments, got it in both"
            )
        return self


def member_keys(members: tuple[GroupMember, ...]) -> list[str]:
    """The names of the members: their keys, or their indexes."""
    return [str(index) if member.key is None else member.key for index, member in enumerate(members)]


def _check_keys(members: tuple[GroupMember, ...]) -> tuple[GroupMember, ...]:
    first = dict[str, int]()
    for index, key in enumerate(member_keys(members)):
        if first.setdefault(key, index) != index:
            raise ValueError(
                f"expected a key of its own for each member, got {key!r} for members.{first[key]} and "
                f"members.{index}"
            )
    return members


def _check_first(steps: tuple[ChainStep, ...]) -> tuple[ChainStep, ...]:
    if steps[0].result_argument is not None:
        raise ValueError(
            f"expected no result_argument in steps.0, got {steps[0].result_argument!r}: no step is before it"
        )
    return steps


Members = Annotated[tuple[GroupMember, ...], Field(max_length=MAX_MEMBERS), AfterValidator(_check_keys)]
InFlight = Annotated[int, Field(ge=1, le=10_000, description="Jobs of the group that run at once.")]
Steps = Annotated[
    tuple[ChainStep, ...], Field(min_length=1, max_length=MAX_MEMBERS), AfterValidator(_check_first)
]


class GroupArguments(BaseModel, frozen=True, extra="forbid", defer_build=True):
    members: Members
    in_flight: InFlight = 50
    then: ChainStep | None = None


class ChainArguments(BaseModel, frozen=True, extra="forbid", defer_build=True):
    steps: Steps


class FailedMember(BaseModel, frozen=True, defer_build=True):
    """A member of a group whose job did not succeed."""

    index: int
    key: str | None
    job_type: str
    job_id: UUID | None
    state: JobState | None
    error: str


class GroupResult(BaseModel, frozen=True, defer_build=True):
    """The result of a group without `then`. `results` has one for each member, in their order: None where
    its job did not succeed. `failures` are the first 100."""

    succeeded: int
    failed: int
    failures: tuple[FailedMember, ...] = ()
    results: tuple[Any, ...] = ()
