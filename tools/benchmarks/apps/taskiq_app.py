"""The jobs, as taskiq's workers load them."""

from taskiq_aio_pika import AioPikaBroker
from taskiq_aio_pika.queue import Queue, QueueType
from taskiq_pg.asyncpg import AsyncpgResultBackend
from tools.benchmarks.place import here
from tools.benchmarks.stamp import stamp

_place = here()
broker = AioPikaBroker(
    _place.broker_url, qos=200, task_queues=[Queue(name="bench", type=QueueType.QUORUM)]
).with_result_backend(AsyncpgResultBackend(_place.database_url, field_for_task_id="Text"))


@broker.task("noop")
async def noop(payload: str) -> int:
    """Nothing."""
    return len(payload)


@broker.task("stamped")
async def stamped() -> None:
    """Say when it began."""
    stamp()
