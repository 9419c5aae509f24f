"""Every span name and attribute that Warrener writes. A public contract: dashboards are built on them.

The messaging names follow OpenTelemetry's semantic conventions, whose messaging part is still in development;
they stand here alone, so that a change of the conventions is a change of this file.
"""

from typing import Final

# Spans, one function each: `<operation> <job type>`, low in cardinality.


def request(job_type: str) -> str:
    """Name the span in which a producer requests a job."""
    return f"request {job_type}"


def accept(job_type: str) -> str:
    """Name the span in which the scheduler accepts a request."""
    return f"accept {job_type}"


def attempt(job_type: str) -> str:
    """Name the span in which an agent runs one attempt."""
    return f"attempt {job_type}"


def judge(job_type: str) -> str:
    """Name the span in which the supervisor judges an outcome."""
    return f"judge {job_type}"


def publish(destination: str) -> str:
    """Name the span in which messages are sent to the broker."""
    return f"publish {destination}"


def process(destination: str) -> str:
    """Name the span in which a message is processed."""
    return f"process {destination}"


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

# Attributes of the semantic conventions.
SERVICE_NAME: Final = "service.name"
SERVICE_INSTANCE_ID: Final = "service.instance.id"
SERVICE_VERSION: Final = "service.version"
ERROR_TYPE: Final = "error.type"
SERVER_ADDRESS: Final = "server.address"
SERVER_PORT: Final = "server.port"
MESSAGING_SYSTEM: Final = "messaging.system"
MESSAGING_OPERATION_NAME: Final = "messaging.operation.name"
MESSAGING_OPERATION_TYPE: Final = "messaging.operation.type"
MESSAGING_DESTINATION_NAME: Final = "messaging.destination.name"
MESSAGING_DESTINATION_TEMPLATE: Final = "messaging.destination.template"
MESSAGING_ROUTING_KEY: Final = "messaging.rabbitmq.destination.routing_key"
MESSAGING_MESSAGE_ID: Final = "messaging.message.id"
MESSAGING_CONVERSATION_ID: Final = "messaging.message.conversation_id"
MESSAGING_BODY_SIZE: Final = "messaging.message.body.size"
MESSAGING_BATCH_COUNT: Final = "messaging.batch.message_count"

RABBITMQ: Final = "rabbitmq"
