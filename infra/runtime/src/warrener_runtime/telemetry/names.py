"""Every span and attribute that Warrener writes. A public contract: dashboards and alerts are built on them.

The messaging names follow OpenTelemetry's semantic conventions, whose messaging part is still in development;
they stand here alone, so that a change of the conventions is a change of this file.
`docs/reference/traces.md` is generated from it, and a test compares it with the spans of running services.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final

from warrener_runtime.telemetry.spans import Attribute, Attributes, Kind, SpanShape

# Attributes of our own.
JOB_ID: Final = "warrener.job.id"
JOB_TYPE: Final = "warrener.job.type"
JOB_STATE: Final = "warrener.job.state"
ATTEMPT: Final = "warrener.attempt"
AGENT_ID: Final = "warrener.agent.id"
QUEUE: Final = "warrener.queue"
OUTCOME: Final = "warrener.outcome"
VERDICT: Final = "warrener.verdict"
REASON: Final = "warrener.reason"
WAIT_CAUSE: Final = "warrener.wait.cause"
SCHEDULE: Final = "warrener.schedule.name"
NOMINAL_TIME: Final = "warrener.schedule.nominal_time"
CALL: Final = "warrener.call.id"
CALL_LINE: Final = "warrener.call.line"
CHILD_JOB_ID: Final = "warrener.call.job.id"
REDRIVEN_JOB_ID: Final = "warrener.redriven.job.id"
LINK: Final = "warrener.link"

# Attributes of the semantic conventions.
SERVICE_NAME: Final = "service.name"
SERVICE_INSTANCE_ID: Final = "service.instance.id"
SERVICE_VERSION: Final = "service.version"
HOST_NAME: Final = "host.name"
PROCESS_ID: Final = "process.pid"
ERROR_TYPE: Final = "error.type"
MESSAGING_SYSTEM: Final = "messaging.system"
MESSAGING_OPERATION_NAME: Final = "messaging.operation.name"
MESSAGING_OPERATION_TYPE: Final = "messaging.operation.type"
MESSAGING_DESTINATION_NAME: Final = "messaging.destination.name"
MESSAGING_ROUTING_KEY: Final = "messaging.rabbitmq.destination.routing_key"
MESSAGING_MESSAGE_ID: Final = "messaging.message.id"
MESSAGING_CONVERSATION_ID: Final = "messaging.message.conversation_id"
EXCEPTION: Final = "exception"
EXCEPTION_TYPE: Final = "exception.type"
EXCEPTION_MESSAGE: Final = "exception.message"
EXCEPTION_STACKTRACE: Final = "exception.stacktrace"

RABBITMQ: Final = "rabbitmq"

ATTRIBUTES: Final[Mapping[str, str]] = MappingProxyType(
    {
        JOB_ID: "id of the job",
        JOB_TYPE: "job type",
        JOB_STATE: "state of the job after the decision",
        ATTEMPT: "number of the attempt, from 1",
        AGENT_ID: "id of the agent, which is its `service.instance.id` too",
        QUEUE: "queue of the job, without `warrener.queue.`",
        OUTCOME: "end of the attempt, event that was judged, or `accepted`, `duplicate`, `rejected`",
        VERDICT: "decision of the supervisor",
        REASON: "why a request was rejected",
        WAIT_CAUSE: "what the job waited for",
        SCHEDULE: "name of the schedule",
        NOMINAL_TIME: "nominal time of the tick",
        CALL: "identifies the call of a workflow, in every turn",
        CALL_LINE: "where the code waits, such as `orders.py:41`",
        CHILD_JOB_ID: "id of the child job that the workflow waited for",
        REDRIVEN_JOB_ID: "id of the dead job that is requested again",
        LINK: "of a link: `redriven`, `upstream`, `duplicate of`, `taken over by`",
        ERROR_TYPE: "class of the error, or reason of the rejection; absent after a success",
        MESSAGING_SYSTEM: "always `rabbitmq`",
        MESSAGING_OPERATION_NAME: "the first word of the span's name",
        MESSAGING_OPERATION_TYPE: "`send` or `process`",
        MESSAGING_DESTINATION_NAME: "exchange published to, or queue consumed",
        MESSAGING_ROUTING_KEY: "routing key of the message",
        MESSAGING_MESSAGE_ID: "id of the message",
        MESSAGING_CONVERSATION_ID: "id of the job",
    }
)
"""Each attribute of spans and links, with its meaning."""

RESOURCE_ATTRIBUTES: Final[Mapping[str, str]] = MappingProxyType(
    {
        SERVICE_NAME: "`warrener-scheduler`, `warrener-agent` or `warrener-supervisor`",
        SERVICE_INSTANCE_ID: "id of the process; of an agent, its agent id",
        SERVICE_VERSION: "version of Warrener",
        HOST_NAME: "name of the host",
        PROCESS_ID: "id of the process on its host",
    }
)
"""Each attribute of a service, with its meaning."""

EXCEPTION_ATTRIBUTES: Final[Mapping[str, str]] = MappingProxyType(
    {
        EXCEPTION_TYPE: "class of the error",
        EXCEPTION_MESSAGE: "its message",
        EXCEPTION_STACKTRACE: "its traceback, where one is known",
    }
)
"""Each attribute of the event `exception`, with its meaning."""


@dataclass(frozen=True, slots=True, eq=False)
class SpanSpec:
    """One kind of span. Its name is the operation and the job type, so that there are few different ones.

    `constants` are attributes with the same value in all of these spans.
    """

    operation: str
    kind: Kind
    services: tuple[str, ...]
    description: str
    attributes: tuple[str, ...] = ()
    constants: Mapping[str, Attribute] = field(default_factory=dict[str, Attribute])

    def name(self, job_type: str) -> str:
        return f"{self.operation} {job_type}"

    def shape(self, job_type: str, attributes: Attributes) -> SpanShape:
        """Make the shape of the spans for jobs of this type that have these attributes, too."""
        return SpanShape(self.name(job_type), self.kind, {**self.constants, JOB_TYPE: job_type, **attributes})


def _messaging(operation: str, operation_type: str, destination: str = "") -> Mapping[str, Attribute]:
    named = {MESSAGING_DESTINATION_NAME: destination} if destination else {}
    return MappingProxyType(
        {
            MESSAGING_SYSTEM: RABBITMQ,
            MESSAGING_OPERATION_NAME: operation,
            MESSAGING_OPERATION_TYPE: operation_type,
            **named,
        }
    )


_JOB = (JOB_ID, JOB_TYPE)
_REQUESTS = "warrener.requests"

REQUEST: Final = SpanSpec(
    "request",
    "producer",
    ("client",),
    "A client publishes a request and awaits the broker's confirm.",
    (*_JOB, MESSAGING_ROUTING_KEY, ERROR_TYPE),
    _messaging("request", "send", _REQUESTS),
)
TICK: Final = SpanSpec(
    "tick",
    "producer",
    ("scheduler",),
    "A schedule requests a job, up to the broker's confirm. The first span of its "
    "trace; a link leads to the event that triggered it.",
    (*_JOB, SCHEDULE, NOMINAL_TIME, MESSAGING_ROUTING_KEY),
    _messaging("tick", "send", _REQUESTS),
)
REDRIVE: Final = SpanSpec(
    "redrive",
    "producer",
    ("scheduler",),
    "A redrive requests a dead job again. The first span of a new trace; a link leads to the dead job's.",
    (*_JOB, REDRIVEN_JOB_ID, MESSAGING_ROUTING_KEY),
    _messaging("redrive", "send", _REQUESTS),
)
ACCEPT: Final = SpanSpec(
    "accept",
    "consumer",
    ("scheduler",),
    "The scheduler decides about a request and stores the job. An error if the request is rejected.",
    (*_JOB, QUEUE, OUTCOME, REASON, ERROR_TYPE, MESSAGING_MESSAGE_ID),
    _messaging("accept", "process", _REQUESTS),
)
WAIT: Final = SpanSpec(
    "wait",
    "internal",
    ("scheduler", "supervisor"),
    "The job waits; recorded when the wait is over, from the times in the store.",
    (*_JOB, WAIT_CAUSE, ATTEMPT),
)
AWAIT: Final = SpanSpec(
    "await",
    "internal",
    ("supervisor",),
    "A workflow waits for a call, from the turn that made it to its answer: for the child job or the signal "
    "of this name, for `timer`, or for `operator` while it is held. Recorded when the next turn is made, for "
    "100 answers at most. An error if the child job did not succeed.",
    (*_JOB, WAIT_CAUSE, ATTEMPT, CALL, CALL_LINE, CHILD_JOB_ID, ERROR_TYPE),
)
ATTEMPT_SPAN: Final = SpanSpec(
    "attempt",
    "consumer",
    ("agent", "supervisor"),
    "An agent runs one attempt; the current span in its handler. An error if the attempt fails. "
    "The supervisor records it if the attempt is lost.",
    (
        *_JOB,
        ATTEMPT,
        QUEUE,
        AGENT_ID,
        OUTCOME,
        ERROR_TYPE,
        MESSAGING_DESTINATION_NAME,
        MESSAGING_CONVERSATION_ID,
    ),
    _messaging("attempt", "process"),
)
REPORT: Final = SpanSpec(
    "report",
    "producer",
    ("agent",),
    "The agent records the outcome in the ledger and publishes it, up to the broker's confirm.",
    (*_JOB, ATTEMPT),
    _messaging("report", "send", "warrener.status"),
)
JUDGE: Final = SpanSpec(
    "judge",
    "consumer",
    ("supervisor",),
    "The supervisor decides about an outcome and saves the decision. An error if the job dies.",
    (*_JOB, JOB_STATE, ATTEMPT, OUTCOME, VERDICT, ERROR_TYPE),
    _messaging("judge", "process", "warrener.status"),
)


def declared_spans() -> Iterator[SpanSpec]:
    """Every span, in the order of this module."""
    for value in globals().values():
        if isinstance(value, SpanSpec):
            yield value
