"""The lean lane: the bus's connections by `warrener_amqp`, a tenth of the processor time of aio-pika's."""

from warrener_runtime.bus.rabbitmq.lean.client import LeanClient, connect_lean

__all__ = ["LeanClient", "connect_lean"]
