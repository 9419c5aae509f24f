"""`docs/reference/topology.md`: exchanges, queues, delay levels, routing keys and permissions."""

from collections.abc import Iterator

from tools.reference import GENERATED
from tools.reference.channels import channels

from warrener_contracts import topology
from warrener_contracts.events.envelope import type_of
from warrener_contracts.permissions import NOTHING, BrokerRole, Holder, permissions_of
from warrener_contracts.topology import Exchange, Queue


def topology_page() -> str:
    """The whole page as Markdown."""
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
    yield "All are durable. A message that no queue is bound for goes to the alternate exchange."
    yield ""
    yield "| exchange | type | alternate | carries |"
    yield "|---|---|---|---|"
    for exchange in topology.EXCHANGES:
        yield _exchange(exchange)
    yield (
        f"| `{topology.INSTALLATION}` | fanout | `<id>` or `{topology.INSTALLATION}.<id>`,"
        " which is no exchange | nothing: it ties the namespace to its store |"
    )
    yield ""
    yield "## Queues"
    yield ""
    yield "Angle brackets are placeholders: one queue per queue, supervisor, agent and requester."
    yield ""
    yield "| queue | bound to | arguments |"
    yield "|---|---|---|"
    for queue in _queues():
        yield _queue(queue)
    yield ""
    yield "## Delay levels"
    yield ""
    yield "A delay longer than the longest level waits in the store alone."
    yield ""
    yield "| level | waits | queue |"
    yield "|---|---|---|"
    for level in topology.DELAY_LEVELS:
        yield f"| `{level.name}` | {int(level.delay.total_seconds())} s | `{level.queue}` |"
    yield from _routing_keys()
    yield from _permissions()


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
    return f"| `{exchange.name}` | {exchange.kind} | {alternate} | {exchange.carries} |"


def _queue(queue: Queue) -> str:
    bindings = "<br>".join(f"`{binding.exchange}` `{binding.key}`" for binding in queue.bindings)
    arguments = "<br>".join(f"`{name}` = `{value}`" for name, value in queue.arguments.items())
    lasting = "exclusive: deleted with its connection" if queue.exclusive else ""
    return f"| `{queue.name}` | {bindings} | {'<br>'.join(filter(None, (arguments, lasting)))} |"


def _routing_keys() -> Iterator[str]:
    yield ""
    yield "## Routing keys"
    yield ""
    yield "| exchange | routing key | from | to | events |"
    yield "|---|---|---|---|---|"
    for channel in sorted(channels(), key=lambda channel: (channel.route.exchange, channel.route.key)):
        route = channel.route
        events = ", ".join(f"`{type_of(kind)}`" for kind in channel.kinds)
        parties = f"{', '.join(route.senders)} | {', '.join(route.receivers)}"
        yield f"| `{route.exchange}` | `{route.key}` | {parties} | {events} |"


def _permissions() -> Iterator[str]:
    yield ""
    yield "## Permissions"
    yield ""
    yield "[`warrener topology permissions`](../howto/restrict-permissions.md) prints them for a user; here"
    yield "without exchanges of which the role has no key. `(?!)` matches nothing."
    for role in BrokerRole:
        agent = role is BrokerRole.AGENT
        queues, job_types = (("etl",), ("flights.*",)) if agent else ((), ())
        found = permissions_of(Holder(role, "ada", queues=queues, job_types=job_types))
        yield ""
        yield f"### {role}"
        yield ""
        if agent:
            yield "With `--queue etl --job-type 'flights.*'`."
            yield ""
        yield "```"
        yield from (f"{kind:<9} {getattr(found, kind)}" for kind in ("configure", "write", "read"))
        for exchange, keys in (found.keys or {}).items():
            if keys != (NOTHING, NOTHING):
                yield f"{exchange}: write {keys.write}, read {keys.read}"
        yield "```"
