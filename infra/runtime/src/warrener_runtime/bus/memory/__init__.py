"""A broker in memory, for tests and simulations: an implementation of the Bus port with faults on request.

`MemoryBroker` has the exchanges and queues and can be stopped, restarted and cut off; a `MemoryBus` is one
service's connection to it. It passes the conformance suite that RabbitMQ passes.
"""

from warrener_runtime.bus.memory.broker import MemoryBroker
from warrener_runtime.bus.memory.bus import MemoryBus

__all__ = ["MemoryBroker", "MemoryBus"]
