"""Dispatch: attempts on their way to agents, and the control messages that stop them."""

from typing import Any, Final, Literal
from uuid import UUID

from pydantic import Field

from warrener_contracts import fields
from warrener_contracts.events.data import EventData
from warrener_contracts.events.envelope import AGENT, SCHEDULER, SUPERVISOR, Event, Route
from warrener_contracts.events.workflows import CallId, Journal
from warrener_contracts.policy import MAX_HISTORY, Guarantee, is_named
from warrener_contracts.topology import CONTROL, DELAY, DISPATCH

MAX_CHECKPOINT: Final = 16 * 1024
"""Bytes of JSON that a checkpoint may have: it travels with every dispatch of a later attempt."""


class Checkpoint(EventData, frozen=True):
    """State that a handler has saved for a later attempt. The greater number is the newer one."""

    number: int = Field(ge=1, le=2**31 - 1, description="Counts on from attempt to attempt.")
    state: Any = Field(default=None, description="Any JSON value; its meaning is the handler's.")


class EarlierAttempt(EventData, frozen=True):
    """An earlier attempt of a job that went wrong."""

    attempt: fields.AttemptNumber
    cause: str = Field(
        max_length=40, description="The kind of its error: `timeout`, `crash`, `lost`, `error` and so on."
    )
    error: fields.Sentence = Field(
        description="The exception's class, the end of its process, or the kind again."
    )
    queue: fields.QueueName
    agent_id: fields.AgentId | None = fields.optional_field("The agent that ran it, if it is known.")
    started_at: fields.Timestamp | None = fields.optional_field("When it began, if it did.")
    seconds: float | None = Field(
        default=None, ge=0, exclude_if=fields.is_none, description="Time that it ran."
    )


class History(EventData, frozen=True):
    """The attempts of a job that went wrong before the dispatched one; no snoozed and no released ones."""

    attempts: tuple[EarlierAttempt, ...] = Field(
        default=(), max_length=MAX_HISTORY, description="The last ones, in order."
    )
    failures: int = Field(
        default=0, ge=0, description="Number of all attempts so far that were charged to the job."
    )
    losses: int = Field(
        default=0, ge=0, description="Number of all attempts so far that were lost with their agent."
    )

    def count(self, *names: str) -> int:
        """Count the listed attempts that ended so: by the class of the error (`*` stands for any characters),
        or by its cause: `memory`, `timeout`, `lost`, `crash`."""
        return sum(is_named(names, one.cause, one.error) for one in self.attempts)


class DispatchedPage(EventData, frozen=True):
    """The items of a page that a workflow reads in this turn."""

    call_id: CallId
    items: tuple[Any, ...] = Field(description="Results; of a batch null for each job that failed.")


class AttemptDispatchedData(EventData, frozen=True):
    """Try this job. `attempt` is the fencing token: only the highest one counts."""

    job_id: UUID
    attempt: fields.AttemptNumber
    job_type: fields.JobType
    queue: fields.QueueName
    arguments: fields.JsonObject
    guarantee: Guarantee = Guarantee.IDEMPOTENT
    timeout: fields.Duration
    max_attempts: int = Field(ge=1, le=1000)
    deadline: fields.Timestamp | None = None
    requested_at: fields.Timestamp
    not_before: fields.Timestamp | None = Field(
        default=None,
        description="It waits in the delay queues until then; an agent that receives it early returns it.",
    )
    checkpoint: Checkpoint | None = Field(
        default=None,
        exclude_if=fields.is_unset,
        description="The latest known checkpoint of an earlier attempt.",
    )
    journal: Journal | None = fields.optional_field("Of a workflow: its turns until now.")
    pages: tuple[DispatchedPage, ...] = Field(
        default=(), exclude_if=fields.is_unset, description="Of a workflow: pages that its journal answers."
    )
    history: History | None = fields.optional_field("If any attempt went wrong: the earlier attempts.")
    avoid_agents: tuple[fields.AgentId, ...] = Field(
        default=(),
        max_length=MAX_HISTORY,
        exclude_if=fields.is_unset,
        description="Agents that give it back at first, since earlier attempts failed there.",
    )


class AttemptDispatched(
    Event[AttemptDispatchedData],
    frozen=True,
    route=Route(DISPATCH, "{queue}.{job_type}", (SCHEDULER, SUPERVISOR), (AGENT,)),
    also=(
        Route(
            DELAY,
            "{level}.{queue}.{job_type}",
            (SCHEDULER, SUPERVISOR, AGENT),
            (AGENT,),
            "The same by way of the delay queues: it leaves them on warrener.return under the same key.",
        ),
    ),
):
    """An attempt waits here until an agent has a free slot. May arrive more than once; the ledger admits
    one."""

    type: Literal["attempt.dispatched.v1"] = "attempt.dispatched.v1"


class AttemptCancelData(EventData, frozen=True):
    """Stop the attempts of this job and start no further ones."""

    job_id: UUID
    attempt: fields.AttemptNumber | None = Field(default=None, description="None: every attempt.")
    reason: fields.Sentence


class AttemptCancel(
    Event[AttemptCancelData],
    frozen=True,
    route=Route(CONTROL, "all", (SUPERVISOR,), (AGENT,), persistent=False),
    also=(
        Route(
            CONTROL,
            "queue.{queue}",
            (SUPERVISOR,),
            (AGENT,),
            "The same, to the agents that serve the queue of the job.",
            persistent=False,
        ),
    ),
):
    """Stops a job at the agent that runs it; the others ignore it. A lost message costs time alone."""

    type: Literal["attempt.cancel.v1"] = "attempt.cancel.v1"
