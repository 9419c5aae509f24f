"""The Bus port on RabbitMQ: aiormq's connection and frames, our own recovery, confirms and acknowledgements.

FastStream, on aio-pika, carries `listen`. aio-pika's robust objects are not used: a lost channel, a cancelled
consumer and a half-open socket each left them deaf or made them close the connection on some broker version,
and what recovers must be something that we can prove (`infra/runtime/tests/test_bus_traps.py`).
"""

from warrener_runtime.bus.rabbitmq.bus import RabbitBus

__all__ = ["RabbitBus"]
