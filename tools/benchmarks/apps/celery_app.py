"""The jobs, as Celery's workers load them."""

from typing import Any

import celery  # type: ignore[import-untyped] # it brings no types
from tools.benchmarks.place import here
from tools.benchmarks.stamp import stamp

_place = here()
app: Any = celery.Celery(
    "bench",
    broker=_place.broker_url,
    backend=f"db+{_place.database_url.replace('postgresql://', 'postgresql+psycopg2://')}",
)
app.conf.update(
    task_acks_late=True,
    task_reject_on_worker_lost=True,
    task_default_queue="bench",
    task_default_queue_type="quorum",
    task_default_exchange="bench",
    broker_transport_options={"confirm_publish": True},
    broker_connection_retry_on_startup=True,
    worker_prefetch_multiplier=64,  # what "Optimizing" advises for many short tasks
    worker_send_task_events=False,
    task_track_started=False,
    result_expires=None,
)


def _noop(payload: str) -> int:
    """Nothing."""
    return len(payload)


def _stamped() -> None:
    """Say when it began."""
    stamp()


noop: Any = app.task(name="noop")(_noop)
stamped: Any = app.task(name="stamped")(_stamped)
