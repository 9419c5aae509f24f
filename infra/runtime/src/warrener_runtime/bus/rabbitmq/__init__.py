"""The Bus port on RabbitMQ: recovery, publishing and consuming above a client library.

`lean` is the client library, on `warrener_amqp`. `test_bus_traps.py` shows what it survives: lost channels,
cancelled consumers, half-open sockets, memory alarms.
"""

from warrener_runtime.bus.rabbitmq.bus import RabbitBus

__all__ = ["RabbitBus"]
