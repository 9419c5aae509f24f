"""`docs/reference/topology.md`: the exchanges and queues as tables."""

from collections.abc import Iterator

from warrener_contracts import topology
from warrener_contracts.reference import GENERATED
from warrener_contracts.topology import Exchange, Queue

_CARRIES = {
    topology.REQUESTS: "requests, by job type; the publisher is told when no queue is bound",
    topology.DISPATCH: "attempts, by queue and job type; the publisher is told when no queue is bound",
    topology.STATUS: "what became of attempts",
    topology.HEARTBEATS: "presence of agents",
    topology.CONTROL: "orders to agents",
    topology.DELAY: "attempts that wait on the delay ladder",
    topology.RETURN: "attempts that come off the ladder",
    topology.DEAD: "dead letters of every queue, and parked messages",
    topology.EVENTS: "outbound events and answers, for anyone to bind a queue to",
    topology.UNROUTABLE: "what no queue was bound for",
}


def topology_page() -> str:
    """The whole page."""
    return "\n".join(_lines()) + "\n"


def _lines() -> Iterator[str]:
    yield GENERATED
    yield "# The topology"
    yield ""
    yield "The same on RabbitMQ 3.10, 4.0 and 4.3. [Why it is so](../explanation/topology.md)."
    yield ""
    yield (
        "`warrener` is the default namespace: where `WARRENER_NAMESPACE` is `shop-2`, every name on the"
        " broker begins with `shop-2.` instead ([share a broker](../howto/share-a-broker.md))."
    )
    yield ""
    yield "## Exchanges"
    yield ""
    yield "All durable. Where no queue is bound for a message it goes to the alternate exchange."
    yield ""
    yield "| exchange | type | alternate | carries |"
    yield "|---|---|---|---|"
    for exchange in topology.EXCHANGES:
        yield _exchange(exchange)
    yield (
        f"| `{topology.INSTALLATION}` | fanout | the id of the installation, which is no exchange |"
        " nothing: it says to which store the namespace belongs |"
    )
    yield ""
    yield "## Queues"
    yield ""
    yield "What stands in angle brackets is filled in: one queue for each queue, supervisor, agent and asker."
    yield ""
    yield "| queue | bound to | arguments |"
    yield "|---|---|---|"
    for queue in _queues():
        yield _queue(queue)
    yield ""
    yield "## The delay ladder"
    yield ""
    yield "A delay longer than the top rung is kept in the store alone."
    yield ""
    yield "| rung | waits | queue |"
    yield "|---|---|---|"
    for level in topology.DELAY_LEVELS:
        yield f"| `{level.name}` | {int(level.delay.total_seconds())} s | `{level.queue}` |"


def _queues() -> tuple[Queue, ...]:
    named = (
        topology.dispatch_queue("<queue>"),
        topology.heartbeats_queue("<supervisor id>"),
        topology.control_queue("<agent id>", ["<queue>"]),
        topology.reply_queue("<reply address>"),
    )
    return (*topology.TOPOLOGY.queues, *named)


def _exchange(exchange: Exchange) -> str:
    alternate = f"`{exchange.alternate}`" if exchange.alternate else "none"
    return f"| `{exchange.name}` | {exchange.kind} | {alternate} | {_CARRIES[exchange.name]} |"


def _queue(queue: Queue) -> str:
    bindings = "<br>".join(f"`{binding.exchange}` `{binding.key}`" for binding in queue.bindings)
    arguments = "<br>".join(f"`{name}` = `{value}`" for name, value in queue.arguments.items())
    lasting = "exclusive: it goes with its connection" if queue.exclusive else ""
    return f"| `{queue.name}` | {bindings} | {'<br>'.join(filter(None, (arguments, lasting)))} |"
