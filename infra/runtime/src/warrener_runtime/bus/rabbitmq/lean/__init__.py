"""Connections by `warrener_amqp`, in a tenth of the processor time of aio-pika."""

from warrener_runtime.bus.rabbitmq.lean.client import LeanClient, connect_lean

__all__ = ["LeanClient", "connect_lean"]
