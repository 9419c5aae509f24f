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

# Labels of metrics alone; the others are attributes of spans too.
ADMISSION: Final = "warrener.admission"
BREAKER: Final = "warrener.breaker"
BREAKER_STATE: Final = "warrener.breaker.state"
DELAY_LEVEL: Final = "warrener.delay.level"
OPERATION: Final = "warrener.operation"
SLOT_STATE: Final = "warrener.slot.state"
TICK_STATUS: Final = "warrener.tick.status"

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
_NOTHING: Mapping[str, str] = MappingProxyType({})

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
    labels: tuple[str, ...] = ()
    services: tuple[str, ...] = ()
    constants: Mapping[str, str] = field(default_factory=lambda: _NOTHING)
    bounds: tuple[float, ...] = ()  # upper bounds of a histogram's buckets

    def attributes(self, values: Sequence[str]) -> dict[str, str]:
        """The attributes of the series with these values of its labels; empty ones are left out."""
        return {
            **self.constants,
            **{label: value for label, value in zip(self.labels, values, strict=True) if value},
        }


_ALL = ("scheduler", "agent", "supervisor")
_SCHEDULER, _AGENT, _SUPERVISOR = ("scheduler",), ("agent",), ("supervisor",)

# -- messages -----------------------------------------------------------------------------------------------

SENT_MESSAGES: Final = MetricSpec(
    "messaging.client.sent.messages",
    "counter",
    "{message}",
    "Messages published to the broker.",
    (names.MESSAGING_DESTINATION_NAME, names.ERROR_TYPE),
    _ALL,
    _PUBLISH,
)
CONSUMED_MESSAGES: Final = MetricSpec(
    "messaging.client.consumed.messages",
    "counter",
    "{message}",
    "Messages received and handed to the service.",
    (names.MESSAGING_DESTINATION_NAME,),
    _ALL,
    _DELIVER,
)
OPERATION_DURATION: Final = MetricSpec(
    "messaging.client.operation.duration",
    "histogram",
    "s",
    "Time to publish a batch of messages, up to the broker's last confirm.",
    (names.ERROR_TYPE,),
    _ALL,
    _PUBLISH,
    _MILLISECONDS,
)
PROCESS_DURATION: Final = MetricSpec(
    "messaging.process.duration",
    "histogram",
    "s",
    "Time to process what was received: a batch in scheduler and supervisor, an attempt in agents.",
    (names.MESSAGING_DESTINATION_NAME, names.JOB_TYPE, names.ERROR_TYPE),
    _ALL,
    _PROCESS,
    _HOURS,
)
BATCH_SIZE: Final = MetricSpec(
    "warrener.batch.size",
    "histogram",
    "{message}",
    "Messages handled together.",
    (names.MESSAGING_DESTINATION_NAME,),
    _ALL,
    bounds=_SIZES,
)

# -- jobs ---------------------------------------------------------------------------------------------------

JOBS_REQUESTED: Final = MetricSpec(
    "warrener.jobs.requested",
    "counter",
    "{job}",
    "Requests for jobs, by what was decided about them.",
    (names.JOB_TYPE, ADMISSION),
    _SCHEDULER,
)
JOBS_FINISHED: Final = MetricSpec(
    "warrener.jobs.finished",
    "counter",
    "{job}",
    "Jobs that reached a terminal state.",
    (names.JOB_TYPE, names.JOB_STATE),
    _SUPERVISOR,
)
JOB_DURATION: Final = MetricSpec(
    "warrener.job.duration",
    "histogram",
    "s",
    "Time from the request of a job to its end.",
    (names.JOB_TYPE, names.JOB_STATE),
    _SUPERVISOR,
    bounds=_HOURS,
)
QUEUE_TIME: Final = MetricSpec(
    "warrener.job.queue_time",
    "histogram",
    "s",
    "Time from the dispatch of an attempt, or the end of its delay, to its start.",
    (names.JOB_TYPE, names.QUEUE),
    _AGENT,
    bounds=_HOURS,
)
SCHEDULE_LAG: Final = MetricSpec(
    "warrener.job.schedule_lag",
    "histogram",
    "s",
    "Time from the due time of a waiting job to its dispatch.",
    (names.JOB_TYPE,),
    _SCHEDULER,
    bounds=_HOURS,
)
JOBS: Final = MetricSpec(
    "warrener.jobs", "gauge", "{job}", "Jobs in the store.", (names.QUEUE, names.JOB_STATE), _SUPERVISOR
)
OLDEST_AGE: Final = MetricSpec(
    "warrener.queue.oldest_age",
    "gauge",
    "s",
    "Time for which the oldest dispatched job has waited for an agent.",
    (names.QUEUE,),
    _SUPERVISOR,
)

# -- failures -----------------------------------------------------------------------------------------------

ATTEMPTS_RETRIED: Final = MetricSpec(
    "warrener.attempts.retried",
    "counter",
    "{attempt}",
    "Attempts that failed, timed out or were lost, and are followed by another.",
    (names.JOB_TYPE, names.ERROR_TYPE),
    _SUPERVISOR,
)
ATTEMPTS_LOST: Final = MetricSpec(
    "warrener.attempts.lost",
    "counter",
    "{attempt}",
    "Attempts that were lost with their agent.",
    (names.QUEUE,),
    _SUPERVISOR,
)
DEAD_LETTERS: Final = MetricSpec(
    "warrener.dead_letters",
    "counter",
    "{job}",
    "Jobs that died and became dead letters.",
    (names.JOB_TYPE,),
    _SUPERVISOR,
)
PARKED: Final = MetricSpec(
    "warrener.parked",
    "counter",
    "{message}",
    "Messages that no service could use, and that were parked.",
    (names.REASON,),
    (*_SCHEDULER, *_SUPERVISOR),
)
BREAKERS: Final = MetricSpec(
    "warrener.breaker.state",
    "gauge",
    "{breaker}",
    "1 for the state that the circuit breaker has, 0 for the others.",
    (BREAKER, BREAKER_STATE),
    _SUPERVISOR,
)

# -- schedules ----------------------------------------------------------------------------------------------

TICKS: Final = MetricSpec(
    "warrener.ticks", "counter", "{tick}", "Ticks of schedules.", (TICK_STATUS,), _SCHEDULER
)
TICK_LATENESS: Final = MetricSpec(
    "warrener.tick.lateness",
    "histogram",
    "s",
    "Time from the due time of a tick to the broker's confirm of its request.",
    (),
    _SCHEDULER,
    bounds=_HOURS,
)

# -- agents and queues --------------------------------------------------------------------------------------

AGENTS_ALIVE: Final = MetricSpec(
    "warrener.agents.alive",
    "gauge",
    "{agent}",
    "Agents that serve a queue and sent a heartbeat lately.",
    (names.QUEUE,),
    _SUPERVISOR,
)
SLOTS: Final = MetricSpec(
    "warrener.agent.slots",
    "gauge",
    "{slot}",
    "Slots of this agent, by the queue that they are for.",
    (names.QUEUE, SLOT_STATE),
    _AGENT,
)
QUEUE_MESSAGES: Final = MetricSpec(
    "warrener.queue.messages",
    "gauge",
    "{message}",
    "Messages in a queue that no consumer has.",
    (names.MESSAGING_DESTINATION_NAME,),
    _SUPERVISOR,
)
QUEUE_CONSUMERS: Final = MetricSpec(
    "warrener.queue.consumers",
    "gauge",
    "{consumer}",
    "Consumers of a queue.",
    (names.MESSAGING_DESTINATION_NAME,),
    _SUPERVISOR,
)
DELAYED_MESSAGES: Final = MetricSpec(
    "warrener.delay.messages", "gauge", "{message}", "Messages in a delay queue.", (DELAY_LEVEL,), _SUPERVISOR
)

# -- the services themselves --------------------------------------------------------------------------------

STORE_DURATION: Final = MetricSpec(
    "warrener.store.operation.duration",
    "histogram",
    "s",
    "Time of a statement in the store, connection included; a statement changes a whole batch.",
    (OPERATION, names.ERROR_TYPE),
    ("scheduler", "supervisor"),
    bounds=_MILLISECONDS,
)
LEDGER_DURATION: Final = MetricSpec(
    "warrener.ledger.operation.duration",
    "histogram",
    "s",
    "Time of a call of the ledger, which changes a whole batch.",
    (OPERATION, names.ERROR_TYPE),
    _AGENT,
    bounds=_MILLISECONDS,
)
SPANS_DROPPED: Final = MetricSpec(
    "warrener.telemetry.spans_dropped",
    "counter",
    "{span}",
    "Spans that were not sent to the collector.",
    (),
    _ALL,
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
