"""Checks of the broker: reachable, version, permissions, topology, who consumes."""

from collections.abc import AsyncIterator

from warrener.doctor.finding import Finding, odd, well, wrong
from warrener.drift import Difference, differences
from warrener.exits import CommandError
from warrener.probe import Probe, QueueSeen, probing
from warrener_contracts.topology import (
    DEAD_QUEUE,
    REQUESTS_QUEUE,
    STATUS_QUEUE,
    UNROUTABLE_QUEUE,
    Queue,
)

_OLDEST = (3, 10)


async def check_broker(url: str) -> AsyncIterator[Finding]:
    """Everything that can be asked of the broker, in the order in which it breaks."""
    try:
        async with probing(url) as probe:
            yield version(probe.broker)
            found = await differences(probe)
            yield topology(found)
            if not any(each.missing for each in found):
                yield permissions(await probe.try_permissions())
                async for finding in _services(probe):
                    yield finding
    except CommandError as error:
        yield wrong("broker", error.sentence, error.do or "start it")


def version(broker: str) -> Finding:
    """RabbitMQ 3.10 or later; others are not tested."""
    name, _, number = broker.partition(" ")
    parts = tuple(int(part) for part in number.split(".")[:2] if part.isdigit())
    if name != "RabbitMQ":
        return odd(
            "broker", f"expected RabbitMQ, got {broker}", "use RabbitMQ 3.10 or later: no other is tested"
        )
    if parts < _OLDEST:
        return wrong("broker", f"expected RabbitMQ 3.10 or later, got {number}", "upgrade the broker")
    return well("broker", f"{broker} answers")


def topology(found: list[Difference]) -> Finding:
    """Nothing missing, nothing other."""
    if not found:
        return well("topology", "every exchange and queue is as this version declares it")
    told = "; ".join(f"{each.what} {each.how}" for each in found[:3])
    more = f" and {len(found) - 3} more" if len(found) > 3 else ""
    if all(each.missing for each in found):
        return wrong("topology", told + more, "run `warrener topology --declare`, or start a service")
    return wrong(
        "topology", told + more, "see `warrener topology --check`: a queue that differs must be made anew"
    )


def permissions(refused: str | None) -> Finding:
    """Configure, write and read."""
    if refused is None:
        return well("permissions", "configure, write and read were tried and granted")
    return wrong("permissions", f"expected all to be granted, got {refused}", "rabbitmqctl set_permissions …")


async def _services(probe: Probe) -> AsyncIterator[Finding]:
    yield consumed("scheduler", REQUESTS_QUEUE, await probe.queue(REQUESTS_QUEUE.name))
    yield consumed("supervisor", STATUS_QUEUE, await probe.queue(STATUS_QUEUE.name))
    for queue in (DEAD_QUEUE, UNROUTABLE_QUEUE):
        seen = await probe.queue(queue.name)
        if seen is not None and seen.messages and not seen.consumers:
            yield odd(
                queue.name, f"{seen.messages} messages wait to be kept", "start a supervisor: it buries them"
            )


def consumed(service: str, queue: Queue, seen: QueueSeen | None) -> Finding:
    """Whether the service that owns the queue is there."""
    if seen is None or not seen.consumers:
        waiting = f", {seen.messages} messages wait" if seen else ""
        return wrong(service, f"nobody consumes {queue.name}{waiting}", f"start one: `warrener {service}`")
    return well(service, f"{seen.consumers} at work, {seen.messages} messages wait in {queue.name}")
