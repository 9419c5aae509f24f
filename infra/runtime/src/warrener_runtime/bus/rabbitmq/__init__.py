"""The Bus port on RabbitMQ: recovery, publishing and consuming above a client library.

`lean` is the client library of the hot queues, on `warrener_amqp`; `aiormq` carries `listen` by FastStream,
and the hot queues where a setting chooses it. aio-pika's robust objects are not used: a lost channel, a
cancelled consumer and a half-open socket each stalled them or closed the connection on some broker version
(`test_bus_traps.py`).
"""

from warrener_runtime.bus.rabbitmq.bus import RabbitBus

__all__ = ["RabbitBus"]
