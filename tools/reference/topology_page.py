"""`docs/reference/topology.md`: exchanges, queues, delay levels, routing keys and topic permissions."""

import re
from collections.abc import Iterator, Mapping

from tools.reference import GENERATED
from tools.reference.channels import channels

from warrener_contracts import topology
from warrener_contracts.events.envelope import AGENT, ANYONE, Party, type_of
from warrener_contracts.fields import RESERVED_WORDS
from warrener_contracts.topology import Exchange, Queue

_PARKED_KEY = r"parked\..+"
_PULSE_KEY = r"pulse\..+"
_NO_KEY = "^$"
# A key that begins with a job type must not look like a key of Warrener's own.
_ANY_JOB_TYPE = rf"(?!({'|'.join(sorted(RESERVED_WORDS))})(\.|$)).+"


def topology_page() -> str:
    """The whole page as Markdown."""
    return "\n".join(_lines()) + "\n"


def publish_permissions(party: Party) -> Mapping[str, str]:
    """Return for each topic exchange the regular expression of the routing keys that `party` may publish."""
    keys: dict[str, set[str]] = {name: set() for name in _topic_exchanges()}
    for channel in channels():
        if party in channel.route.senders:
            keys[channel.route.exchange].add(_pattern(channel.route.key))
    if party is AGENT:
        keys[topology.DEAD].add(_PARKED_KEY)  # agents park the dispatches that they cannot read
        keys[topology.CONTROL].add(_PULSE_KEY)  # the pulses by which an agent notices that it receives
    return {name: f"^({'|'.join(sorted(found))})$" if found else _NO_KEY for name, found in keys.items()}


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
        f"| `{topology.INSTALLATION}` | fanout | the id of the installation, which is no exchange |"
        " nothing: it ties the namespace to its store |"
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
    yield "## Topic permissions"
    yield ""
    yield "These commands restrict agents and clients to the routing keys of their own messages. The"
    yield "scheduler and the supervisor requeue messages of every exchange, so they need all keys."
    for party, user in ((AGENT, "agent"), (ANYONE, "client")):
        yield ""
        yield "```"
        yield from _permission_commands(party, user)
        yield "```"


def _permission_commands(party: Party, user: str) -> list[str]:
    """Return the commands that restrict a user of the broker to the messages of `party`."""
    return [
        f"rabbitmqctl set_topic_permissions -p / {user} {exchange} '{keys}' '.*'"
        for exchange, keys in publish_permissions(party).items()
    ]


def _topic_exchanges() -> list[str]:
    return [exchange.name for exchange in topology.EXCHANGES if exchange.kind == "topic"]


def _pattern(key: str) -> str:
    if key.startswith("{job_type}"):
        return _ANY_JOB_TYPE
    return re.sub(r"\\{\w+\\}", ".+", re.escape(key))
