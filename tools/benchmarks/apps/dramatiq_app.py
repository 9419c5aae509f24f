"""The jobs, as Dramatiq's workers load them."""

import dramatiq
from dramatiq.brokers.rabbitmq import RabbitmqBroker
from tools.benchmarks.place import here
from tools.benchmarks.stamp import stamp

broker = RabbitmqBroker(url=here().broker_url, confirm_delivery=True)
dramatiq.set_broker(broker)


@dramatiq.actor(queue_name="bench")
def noop(payload: str) -> None:
    """Nothing."""
    del payload


@dramatiq.actor(queue_name="bench")
def stamped() -> None:
    """Say when it began."""
    stamp()
