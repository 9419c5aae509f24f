"""The pieces of the topology on a broker: what is there, how an operator takes one away, and users to forbid.

All of it goes by the broker's own functions, so that exclusive queues are within reach too.
"""

import asyncio
import re
from collections import Counter
from collections.abc import Iterable

from pamqp.common import FieldValue
from tests.servers.kinds import RabbitMQServer
from tools.chaos.clients import channel

from warrener_contracts.topology import EXCHANGES, Queue

USERS = ("scheduler", "agent", "supervisor", "client")
"""A user of the broker for each role; the password is the name."""

Piece = tuple[str, ...]
"""`("exchange", name)`, `("queue", name)` or `("binding", exchange, key, queue)`. The names of exclusive
queues end in a star, because a reconnected service may have another one."""

_OWN_NAME = re.compile(r"^(warrener\.(?:heartbeats|control|reply)|agent|pulse|reply)\..+$")
_LISTED = """
lists:append([[io_lib:format("exchange|~ts ", [N]) || {resource, _, _, N} <- rabbit_exchange:list_names()],
  [io_lib:format("queue|~ts ", [N]) || {resource, _, _, N} <- rabbit_amqqueue:list_names(<<"/">>)],
  [io_lib:format("binding|~ts|~ts|~ts ", [X, K, Q])
    || {binding, {_, _, _, X}, K, {_, _, _, Q}, _} <- rabbit_binding:list(<<"/">>), X =/= <<>>]])
"""
_AUTH = "ok = rabbit_auth_backend_internal:"


async def evaluate(broker: RabbitMQServer, expressions: str) -> str:
    """Evaluate Erlang in the node."""
    return await asyncio.to_thread(broker.evaluate, expressions)


async def pieces(broker: RabbitMQServer) -> Counter[Piece]:
    """All pieces of the product that exist now."""
    return Counter(
        tuple(_OWN_NAME.sub(r"\1.*", word) for word in piece)
        for piece in await _listed(broker)
        if any(word.startswith("warrener.") for word in piece)
        # A connection declares one for its next ping, under a new name.
        and not any(word.startswith("warrener.ping.") for word in piece)
    )


async def queue_named(broker: RabbitMQServer, start: str) -> str:
    """The full name of an exclusive queue by its first words; the name itself of another."""
    names = [piece[1] for piece in await _listed(broker) if piece[0] == "queue"]
    return next((name for name in sorted(names) if name.startswith(start)), start)


async def key_named(broker: RabbitMQServer, exchange: str, start: str, queue: str) -> str:
    """The full key by which a queue is bound, by its first words; they themselves if there is none."""
    keys = [
        piece[2]
        for piece in await _listed(broker)
        if (piece[0], piece[1], piece[-1]) == ("binding", exchange, queue)
    ]
    return next((key for key in sorted(keys) if key.startswith(start)), start)


async def _listed(broker: RabbitMQServer) -> list[Piece]:
    text = await evaluate(broker, f"lists:flatten({_LISTED.strip()})")
    return [tuple(line.split("|")) for line in text.strip().strip('"').split()]


async def delete_exchange(broker: RabbitMQServer, name: str) -> None:
    """Delete an exchange, and with it its bindings."""
    async with channel(broker) as one:
        await one.exchange_delete(name)


async def declare_exchange(broker: RabbitMQServer, name: str) -> None:
    """Declare an exchange of the product as it was, without a binding."""
    (exchange,) = (one for one in EXCHANGES if one.name == name)
    arguments: dict[str, FieldValue] = (
        {"alternate-exchange": exchange.alternate} if exchange.alternate else {}
    )
    async with channel(broker) as one:
        await one.exchange_declare(name, exchange_type=exchange.kind, durable=True, arguments=arguments)


async def declare_queue(broker: RabbitMQServer, queue: Queue) -> None:
    """Declare a queue of the product with its bindings."""
    async with channel(broker) as one:
        await one.queue_declare(queue.name, durable=True, arguments=dict(queue.arguments))
    for binding in queue.bindings:
        await bind(broker, binding.exchange, binding.key, queue.name)


async def delete_queue(broker: RabbitMQServer, name: str) -> None:
    """Delete a queue with all messages in it."""
    await evaluate(broker, _with(name, 'fun(Q) -> rabbit_amqqueue:delete(Q, false, false, <<"chaos">>) end'))


async def purge(broker: RabbitMQServer, name: str) -> int:
    """Destroy the messages that wait in a queue; how many."""
    answer = await evaluate(broker, _with(name, "fun rabbit_amqqueue:purge/1"))
    return int(re.sub(r"\D", "", answer) or 0)


async def bind(broker: RabbitMQServer, exchange: str, key: str, queue: str) -> None:
    """Add a binding."""
    await evaluate(broker, f'rabbit_binding:add({_binding(exchange, key, queue)}, <<"chaos">>)')


async def unbind(broker: RabbitMQServer, exchange: str, key: str, queue: str) -> None:
    """Remove a binding."""
    nothing = "fun(_, _) -> ok end"
    await evaluate(broker, f'rabbit_binding:remove({_binding(exchange, key, queue)}, {nothing}, <<"chaos">>)')


async def limit(broker: RabbitMQServer, queue: str) -> None:
    """Let a queue hold one message, and refuse all others."""
    text = '{\\"max-length\\": 1, \\"overflow\\": \\"reject-publish\\"}'
    pattern = "^" + queue.replace(".", "[.]") + "$"
    await evaluate(
        broker,
        f'rabbit_policy:parse_set(<<"/">>, <<"full">>, <<"{pattern}">>, <<"{text}">>, <<"1">>, <<"queues">>, '
        '<<"chaos">>)',
    )


async def unlimit(broker: RabbitMQServer) -> None:
    """Remove that limit."""
    await evaluate(broker, 'rabbit_policy:delete(<<"/">>, <<"full">>, <<"chaos">>)')


async def add_users(broker: RabbitMQServer) -> None:
    """Add a user for each role, with all permissions; guest may replay what they have published."""
    await evaluate(broker, f'{_AUTH}set_tags(<<"guest">>, [administrator, impersonator], <<"chaos">>)')
    for user in USERS:
        await evaluate(broker, f'{_AUTH}add_user(<<"{user}">>, <<"{user}">>, <<"chaos">>)')
    await permit(broker, USERS)


async def permit(
    broker: RabbitMQServer, users: Iterable[str], configure: str = ".*", write: str = ".*", read: str = ".*"
) -> None:
    """Set the permissions of users."""
    rights = ", ".join(f'<<"{right}">>' for right in (configure, write, read))
    for user in users:
        await evaluate(broker, f'{_AUTH}set_permissions(<<"{user}">>, <<"/">>, {rights}, <<"chaos">>)')


def all_but(name: str) -> str:
    """The regular expression of all names but one."""
    return f"^(?!{name.replace('.', '[.]')}$).*$"


def _with(queue: str, action: str) -> str:
    return f'rabbit_amqqueue:with({{resource, <<"/">>, queue, <<"{queue}">>}}, {action})'


def _binding(exchange: str, key: str, queue: str) -> str:
    source = f'{{resource, <<"/">>, exchange, <<"{exchange}">>}}'
    target = f'{{resource, <<"/">>, queue, <<"{queue}">>}}'
    return f'{{binding, {source}, <<"{key}">>, {target}, []}}'
