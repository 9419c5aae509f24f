"""Checks of the broker: reachable, version, topology, bindings, permissions, clock, who consumes."""

from collections.abc import AsyncIterator, Sequence

from warrener.doctor.broker_clock import broker_clock
from warrener.doctor.finding import Finding, Health, odd, well, wrong
from warrener.drift import Difference, Drift, drift
from warrener.exits import CommandError
from warrener.management import management_of
from warrener.places import Places
from warrener.probe import Probe, QueueSeen, probing
from warrener_contracts.topology import (
    DEAD_QUEUE,
    REQUESTS_QUEUE,
    STATUS_QUEUE,
    UNROUTABLE_QUEUE,
    Queue,
)

_OLDEST = (3, 10)


async def check_broker(places: Places) -> AsyncIterator[Finding]:
    """Everything that can be asked of the broker, in the order in which it breaks."""
    try:
        management = management_of(places.broker_url, places.management_url)
        async with probing(places.broker_url, places.namespace) as probe:
            yield version(probe.broker)
            found = await drift(probe, management)
            yield topology(found.differences)
            if (finding := bindings(found)) is not None:
                yield finding
            if not any(each.missing for each in found.differences):
                yield permissions(await probe.try_permissions())
                yield broker_clock(await probe.time())
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


def topology(found: Sequence[Difference]) -> Finding:
    """Nothing missing, nothing other."""
    if not found:
        return well("topology", "every exchange and queue is as this version declares it")
    if all(each.missing for each in found):
        return wrong("topology", _told(found), "run `warrener topology --declare`, or start a service")
    return wrong(
        "topology", _told(found), "see `warrener topology --check`: a queue that differs must be made anew"
    )


def bindings(found: Drift) -> Finding | None:
    """All there, and no strange ones; that they could not be compared is no fault. None: nothing to bind."""
    if found.not_compared is not None:
        return odd("bindings", f"not compared: {found.not_compared.why}", found.not_compared.do)
    if missing := [each for each in found.bindings if each.health is Health.WRONG]:
        return wrong("bindings", _told(missing), missing[0].do or "")
    if found.bindings:
        return odd("bindings", _told(found.bindings), found.bindings[0].do or "")
    if found.compared:
        return well("bindings", "every queue is bound as this version binds it")
    return None


def _told(found: Sequence[Difference]) -> str:
    more = f" and {len(found) - 3} more" if len(found) > 3 else ""
    return "; ".join(f"{each.what} {each.how}" for each in found[:3]) + more


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
