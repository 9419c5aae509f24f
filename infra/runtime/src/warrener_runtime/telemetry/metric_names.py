"""Every metric that Warrener writes: name, unit, description, labels. A public contract: dashboards and
alerts are built on them.

The messaging names follow OpenTelemetry's semantic conventions. `docs/reference/metrics.md` is generated from
this module, and a test compares it with the metrics that running services write.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final, Literal

from warrener_runtime.telemetry import names

MetricKind = Literal["counter", "gauge", "histogram"]
Labels = tuple[str, ...]
Constants = Mapping[str, str]

# Labels of metrics alone; the others are attributes of spans too.
ADMISSION: Final = "warrener.admission"
BREAKER: Final = "warrener.breaker"
BREAKER_STATE: Final = "warrener.breaker.state"
DELAY_LEVEL: Final = "warrener.delay.level"
OPERATION: Final = "warrener.operation"
SLOT_STATE: Final = "warrener.slot.state"
TICK_STATUS: Final = "warrener.tick.status"
WORKFLOW_WAIT: Final = "warrener.workflow.wait"

LABELS: Final[Mapping[str, str]] = MappingProxyType(
    {
        names.JOB_TYPE: "job type; empty where none is known",
        names.JOB_STATE: "state of the job",
        names.QUEUE: "queue of the job, without `warrener.queue.`",
        ADMISSION: "`accepted`, `duplicate` or `rejected`",
        names.REASON: "why the message was parked",
        names.ERROR_TYPE: "class of the error, or how it failed; absent after a success",
        names.MESSAGING_DESTINATION_NAME: "exchange published to, or queue consumed",
        BREAKER: "name of the circuit breaker",
        BREAKER_STATE: "`closed`, `open` or `half_open`",
        DELAY_LEVEL: "delay queue, such as `5s`",
        OPERATION: "`read` or `write` of the store; `claim`, `complete` … of the ledger",
        SLOT_STATE: "`used` or `free`",
        TICK_STATUS: "status of the tick in the tick history",
        WORKFLOW_WAIT: "`child`, `signal`, `timer`, `held` (for an operator), `end` (for jobs and undos)",
    }
)
"""Each label, with its meaning."""

MAX_VALUES: Final = 200
"""Values of one label; later ones are written as OTHER."""
OTHER: Final = "other"

_RABBITMQ = MappingProxyType({names.MESSAGING_SYSTEM: names.RABBITMQ})
_PUBLISH = MappingProxyType(
    {**_RABBITMQ, names.MESSAGING_OPERATION_NAME: "publish", names.MESSAGING_OPERATION_TYPE: "send"}
)
_DELIVER = MappingProxyType({**_RABBITMQ, names.MESSAGING_OPERATION_NAME: "deliver"})
_PROCESS = MappingProxyType(
    {**_RABBITMQ, names.MESSAGING_OPERATION_NAME: "process", names.MESSAGING_OPERATION_TYPE: "process"}
)
_NOTHING: Constants = MappingProxyType({})

_MILLISECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
_HOURS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 1800.0, 7200.0, 86400.0)
_SIZES = (1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 500.0, 1000.0, 2000.0, 5000.0, 10000.0)


@dataclass(frozen=True, slots=True, eq=False)
class MetricSpec:
    """One metric. `constants` are attributes with the same value in all of its series."""

    name: str
    kind: MetricKind
    unit: str  # as UCUM has it; words in braces are annotations
    description: str
    labels: Labels = ()
    services: tuple[str, ...] = ()
    constants: Constants = field(default_factory=lambda: _NOTHING)
    bounds: tuple[float, ...] = ()  # upper bounds of a histogram's buckets

    def attributes(self, values: Sequence[str]) -> dict[str, str]:
        """The attributes of the series with these values of its labels; empty ones are left out."""
        return {
            **self.constants,
            **{label: value for label, value in zip(self.labels, values, strict=True) if value},
        }


class _Services:
    """Declares the metrics that these services write."""

    def __init__(self, *services: str) -> None:
        self._services = services

    def counter(
        self, name: str, unit: str, description: str, labels: Labels = (), constants: Constants = _NOTHING
    ) -> MetricSpec:
        return MetricSpec(name, "counter", unit, description, labels, self._services, constants)

    def gauge(self, name: str, unit: str, description: str, labels: Labels) -> MetricSpec:
        return MetricSpec(name, "gauge", unit, description, labels, self._services)

    def histogram(
        self,
        name: str,
        description: str,
        labels: Labels = (),
        *,
        bounds: tuple[float, ...] = _HOURS,
        unit: str = "s",
        constants: Constants = _NOTHING,
    ) -> MetricSpec:
        return MetricSpec(name, "histogram", unit, description, labels, self._services, constants, bounds)


_SCHEDULER, _AGENT, _SUPERVISOR = _Services("scheduler"), _Services("agent"), _Services("supervisor")
_BOTH, _ALL = _Services("scheduler", "supervisor"), _Services("scheduler", "agent", "supervisor")

# -- messages -----------------------------------------------------------------------------------------------

SENT_MESSAGES: Final = _ALL.counter(
    "messaging.client.sent.messages",
    "{message}",
    "Messages published to the broker.",
    (names.MESSAGING_DESTINATION_NAME, names.ERROR_TYPE),
    constants=_PUBLISH,
)
CONSUMED_MESSAGES: Final = _ALL.counter(
    "messaging.client.consumed.messages",
    "{message}",
    "Messages received and handed to the service.",
    (names.MESSAGING_DESTINATION_NAME,),
    constants=_DELIVER,
)
OPERATION_DURATION: Final = _ALL.histogram(
    "messaging.client.operation.duration",
    "Time to publish a batch of messages, up to the broker's last confirm.",
    (names.ERROR_TYPE,),
    bounds=_MILLISECONDS,
    constants=_PUBLISH,
)
PROCESS_DURATION: Final = _ALL.histogram(
    "messaging.process.duration",
    "Time to process what was received: a batch in scheduler and supervisor, an attempt in agents.",
    (names.MESSAGING_DESTINATION_NAME, names.JOB_TYPE, names.ERROR_TYPE),
    constants=_PROCESS,
)
BATCH_SIZE: Final = _ALL.histogram(
    "warrener.batch.size",
    "Messages handled together.",
    (names.MESSAGING_DESTINATION_NAME,),
    bounds=_SIZES,
    unit="{message}",
)

# -- jobs ---------------------------------------------------------------------------------------------------

JOBS_REQUESTED: Final = _SCHEDULER.counter(
    "warrener.jobs.requested",
    "{job}",
    "Requests for jobs, by what was decided about them.",
    (names.JOB_TYPE, ADMISSION),
)
JOBS_FINISHED: Final = _SUPERVISOR.counter(
    "warrener.jobs.finished",
    "{job}",
    "Jobs that reached a terminal state.",
    (names.JOB_TYPE, names.JOB_STATE),
)
JOB_DURATION: Final = _SUPERVISOR.histogram(
    "warrener.job.duration", "Time from the request of a job to its end.", (names.JOB_TYPE, names.JOB_STATE)
)
QUEUE_TIME: Final = _AGENT.histogram(
    "warrener.job.queue_time",
    "Time from the dispatch of an attempt, or the end of its delay, to its start.",
    (names.JOB_TYPE, names.QUEUE),
)
SCHEDULE_LAG: Final = _SCHEDULER.histogram(
    "warrener.job.schedule_lag", "Time from the due time of a waiting job to its dispatch.", (names.JOB_TYPE,)
)
JOBS: Final = _SUPERVISOR.gauge(
    "warrener.jobs", "{job}", "Jobs in the store.", (names.QUEUE, names.JOB_STATE)
)
OLDEST_AGE: Final = _SUPERVISOR.gauge(
    "warrener.queue.oldest_age",
    "s",
    "Time for which the oldest dispatched job has waited for an agent.",
    (names.QUEUE,),
)
WORKFLOW_TURNS: Final = _SUPERVISOR.counter(
    "warrener.workflows.turns",
    "{turn}",
    "Turns of workflows after the first: something that they waited for was there.",
    (names.JOB_TYPE,),
)

WORKFLOWS_SUSPENDED: Final = _SUPERVISOR.gauge(
    "warrener.workflows.suspended",
    "{job}",
    "Workflows that wait, by the first thing of several that they wait for; at most 10,000 of each.",
    (WORKFLOW_WAIT,),
)
WORKFLOWS_OLDEST_WAIT: Final = _SUPERVISOR.gauge(
    "warrener.workflows.oldest_wait",
    "s",
    "Time for which the workflow that has waited longest waits.",
    (WORKFLOW_WAIT,),
)

# -- failures -----------------------------------------------------------------------------------------------

ATTEMPTS_RETRIED: Final = _SUPERVISOR.counter(
    "warrener.attempts.retried",
    "{attempt}",
    "Attempts that failed, timed out or were lost, and are followed by another.",
    (names.JOB_TYPE, names.ERROR_TYPE),
)
ATTEMPTS_LOST: Final = _SUPERVISOR.counter(
    "warrener.attempts.lost", "{attempt}", "Attempts that were lost with their agent.", (names.QUEUE,)
)
DEAD_LETTERS: Final = _SUPERVISOR.counter(
    "warrener.dead_letters", "{job}", "Jobs that died and became dead letters.", (names.JOB_TYPE,)
)
PARKED: Final = _BOTH.counter(
    "warrener.parked",
    "{message}",
    "Messages that no service could use, and that were parked.",
    (names.REASON,),
)
BREAKERS: Final = _SUPERVISOR.gauge(
    "warrener.breaker.state",
    "{breaker}",
    "1 for the state that the circuit breaker has, 0 for the others.",
    (BREAKER, BREAKER_STATE),
)

# -- schedules ----------------------------------------------------------------------------------------------

TICKS: Final = _SCHEDULER.counter("warrener.ticks", "{tick}", "Ticks of schedules.", (TICK_STATUS,))
TICK_LATENESS: Final = _SCHEDULER.histogram(
    "warrener.tick.lateness", "Time from the due time of a tick to the broker's confirm of its request."
)

# -- agents and queues --------------------------------------------------------------------------------------

AGENTS_ALIVE: Final = _SUPERVISOR.gauge(
    "warrener.agents.alive",
    "{agent}",
    "Agents that serve a queue and sent a heartbeat lately.",
    (names.QUEUE,),
)
SLOTS: Final = _AGENT.gauge(
    "warrener.agent.slots",
    "{slot}",
    "Slots of this agent, by the queue that they are for.",
    (names.QUEUE, SLOT_STATE),
)
QUEUE_MESSAGES: Final = _SUPERVISOR.gauge(
    "warrener.queue.messages",
    "{message}",
    "Messages in a queue that no consumer has.",
    (names.MESSAGING_DESTINATION_NAME,),
)
QUEUE_CONSUMERS: Final = _SUPERVISOR.gauge(
    "warrener.queue.consumers", "{consumer}", "Consumers of a queue.", (names.MESSAGING_DESTINATION_NAME,)
)
DELAYED_MESSAGES: Final = _SUPERVISOR.gauge(
    "warrener.delay.messages", "{message}", "Messages in a delay queue.", (DELAY_LEVEL,)
)

# -- the services themselves --------------------------------------------------------------------------------

STORE_DURATION: Final = _BOTH.histogram(
    "warrener.store.operation.duration",
    "Time of a statement in the store, connection included; a statement changes a whole batch.",
    (OPERATION, names.ERROR_TYPE),
    bounds=_MILLISECONDS,
)
LEDGER_DURATION: Final = _AGENT.histogram(
    "warrener.ledger.operation.duration",
    "Time of a call of the ledger, which changes a whole batch.",
    (OPERATION, names.ERROR_TYPE),
    bounds=_MILLISECONDS,
)
SPANS_DROPPED: Final = _ALL.counter(
    "warrener.telemetry.spans_dropped", "{span}", "Spans that were not sent to the collector."
)


def declared_metrics() -> Iterator[MetricSpec]:
    """Every metric, in the order of this module."""
    for value in globals().values():
        if isinstance(value, MetricSpec):
            yield value


_SUFFIXES = {"s": "_seconds", "By": "_bytes"}


def prometheus_name(spec: MetricSpec) -> str:
    """The name as OpenTelemetry translates it for Prometheus: `warrener_jobs_finished_total`."""
    name = prometheus_label(spec.name) + _SUFFIXES.get(spec.unit, "")
    return f"{name}_total" if spec.kind == "counter" else name


def prometheus_label(name: str) -> str:
    """The name of a label as OpenTelemetry translates it for Prometheus."""
    return name.replace(".", "_")
