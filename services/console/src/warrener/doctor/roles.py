"""Attempts to go beyond a role of the broker, and to do what the role needs: none of them changes anything.

The broker checks a permission by the name alone, before it looks if there is such a thing, and before it
compares arguments. So a queue's name is tried as that of an exchange, which does not exist, and an exchange
is declared with another type. A message has the name of another user in `user_id`, for which the broker
refuses it once it has compared the routing key. A queue that holds no message is bound for a moment.
"""

import asyncio
import re
from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import replace
from itertools import product
from uuid import uuid4

from pamqp import commands
from pamqp.base import Frame as Method

from warrener.context import ResolvedEndpoints
from warrener.doctor import CheckResult, failed, ok, warning
from warrener.doctor.inspector import ACCESS_REFUSED, PRECONDITION_FAILED, BrokerInspector, open_inspector
from warrener.errors import UsageError
from warrener_amqp.channel import Channel
from warrener_contracts import topology
from warrener_contracts.events import declared_events
from warrener_contracts.permissions import NOTHING, Holder, KeyPatterns, permissions_of
from warrener_runtime.bus.namespace import NameMapper
from warrener_store import StoreError
from warrener_store.grants import STORE_ROLES, UserRights, read_rights

_NOBODY = "doctor-nobody"
"""Stands for a user, queue, agent and job type of others in names and keys."""
_VERBS = {"configure": "make and delete", "write": "write to and bind", "read": "read and bind from"}
_MAX_LISTED, _MAX_SHORT = 20, 3
_TIMEOUT = 6.0  # seconds
_REFUSED = re.compile("access to (queue|exchange|topic) ")


async def check_role(endpoints: ResolvedEndpoints, wanted: Holder) -> AsyncIterator[CheckResult]:
    """Compare what the user of the broker's URL may do with a role, by trying. `wanted` has any user."""
    role = wanted.role
    async with open_inspector(endpoints.broker_url, endpoints.namespace) as inspector:
        try:
            holder = replace(wanted, user=inspector.user, namespace=endpoints.namespace)
        except ValueError as error:
            raise UsageError(str(error)) from None
        tried, beyond, lacking = 0, list[str](), list[str]()
        async for does, expected, actual in _attempts(await _Attacker.make(inspector), holder):
            tried += 1
            if actual and not expected:
                beyond.append(does)
            if expected and not actual:
                lacking.append(does)
    grant = f"run the commands of `warrener topology permissions {role} --user {holder.user}`"
    for does in beyond[:_MAX_LISTED]:
        yield failed("beyond role", f"user {holder.user} may {does}", grant)
    for does in lacking[:_MAX_LISTED]:
        yield failed("lacking", f"user {holder.user} may not {does}", grant)
    if left := len(beyond[_MAX_LISTED:]) + len(lacking[_MAX_LISTED:]):
        yield failed("role", f"and {left} more", grant)
    if not beyond and not lacking:
        yield ok(
            "role",
            f"user {holder.user} may do what the role {role} needs, and nothing else: {tried} attempts",
        )


async def check_store_role(url: str, role: str) -> CheckResult:
    """Compare what the user of the store's URL may do in PostgreSQL with a role."""
    if role not in STORE_ROLES:
        raise UsageError(f"expected a role with a store, got {role!r}; leave --store out")
    try:
        beyond, lacking = (await read_rights(url, ledger=role == "ledger")).compare(role)
    except StoreError as error:
        return failed("store role", str(error), "correct --store")
    wrong = [f"may {one}" for one in beyond] + [f"may not {one}" for one in lacking]
    if not wrong:
        return ok("store role", f"the user may do in PostgreSQL what the role {role} needs, and nothing else")
    shown = _listed(wrong, _MAX_LISTED)
    return failed("store role", f"the user {shown}", f"run `warrener migrate --grants {role} --user NAME`")


async def check_store_user(url: str) -> AsyncIterator[CheckResult]:
    """Compare what the user of the store's URL may do in PostgreSQL with the role of the console. Nothing if
    the store does not answer."""
    try:
        async with asyncio.timeout(_TIMEOUT):
            rights = await read_rights(url)
    except (StoreError, TimeoutError):
        return  # the check of the store says why
    yield judge_store_user(rights)


def judge_store_user(rights: UserRights) -> CheckResult:
    """Require a user with the rights of the console, or of a service whose settings are checked. Pure."""
    user, check = rights.user, "store user"
    if rights.owns:
        do = "make a user for the console and this command by `warrener migrate --grants console --user NAME`"
        return warning(check, f"user {user} owns the tables or is a superuser: it may drop them", do)
    differences = {role: rights.compare(role) for role in STORE_ROLES if role != "ledger"}
    if role := next((role for role, found in differences.items() if found == ([], [])), None):
        return ok(check, f"user {user} may do what the role {role} needs, and nothing else")
    beyond, lacking = differences["console"]
    do = f"let the owner of the tables run `warrener migrate --grants console --user {user}`"
    if lacking:
        return failed(check, f"user {user} may not {_listed(lacking, _MAX_SHORT)}", do)
    more = f"user {user} may {_listed(beyond, _MAX_SHORT)}, which the role console does not need"
    return warning(check, more, do)


def _listed(wrong: Sequence[str], most: int) -> str:
    left = len(wrong) - most
    return ", ".join(wrong[:most]) + (f" and {left} more" if left > 0 else "")


async def _attempts(attacker: "_Attacker", holder: Holder) -> AsyncIterator[tuple[str, bool, bool]]:
    """Try everything; yield each attempt, True if the role permits it, and True if the broker does."""
    wanted, names = permissions_of(holder), attacker.names
    for name in _names(names, holder):
        for verb, words in _VERBS.items():
            expected = _matches(getattr(wanted, verb), name)
            yield f"{words} {name}", expected, await attacker.may(verb, name)
    refused = await attacker.publish(topology.PINGS, attacker.queue)
    yield f"publish to {topology.PINGS} under the name of a queue for pings", True, refused != ACCESS_REFUSED
    yield "publish in the name of another user (tag impersonator)", False, not refused
    exchanges = ["", topology.PINGS, *(one.name for one in topology.EXCHANGES if one.kind == "topic")]
    tried = ((one, key) for one in exchanges for key in dict.fromkeys(_keys(holder, one)))
    for exchange, key in ((names.to_broker(one), key) for one, key in tried):
        keys = (wanted.keys or {}).get(exchange, _EVERYTHING)
        if refused == PRECONDITION_FAILED:  # else the message might arrive
            expected = _matches(wanted.write, exchange or "amq.default") and _matches(keys.write, key)
            may = await attacker.publish(exchange, key) != ACCESS_REFUSED
            yield f"publish to {exchange or 'amq.default'} under {key!r}", expected, may
        if exchange:
            expected = _matches(wanted.read, exchange) and _matches(keys.read, key)
            yield f"bind to {exchange} by {key!r}", expected, await attacker.may_bind(exchange, key)


class _Attacker:
    """Tries what a user may do. Its own queue takes no message, and goes with the connection."""

    def __init__(self, inspector: BrokerInspector, queue: str) -> None:
        self._inspector, self.queue = inspector, queue
        self.names = inspector.names

    @classmethod
    async def make(cls, inspector: BrokerInspector) -> "_Attacker":
        queue = inspector.own_queue_name()
        declare = commands.Queue.Declare(queue=queue, exclusive=True, arguments={"x-max-length": 0})
        refusal = await inspector.refusal(lambda channel: channel.call(declare, commands.Queue.DeclareOk))
        if refusal is not None:
            raise refusal
        return cls(inspector, queue)

    async def may(self, verb: str, name: str) -> bool:
        if verb == "read":
            return await self._bind(name, uuid4().hex) not in {"queue", "exchange"}
        if verb == "write":  # the other exchange does not exist
            bind = commands.Exchange.Bind(destination=name, source=self.queue, routing_key="doctor")
            return await self._permits(bind, commands.Exchange.BindOk)
        look = commands.Exchange.Declare(exchange=name, passive=True)
        refusal = await self._inspector.refusal(
            lambda channel: channel.call(look, commands.Exchange.DeclareOk)
        )
        if refusal is not None and refusal.code == ACCESS_REFUSED:
            return False  # RabbitMQ 4.3 lets those look who may configure
        if refusal is None:
            declare = commands.Exchange.Declare(exchange=name, exchange_type="headers")
            return await self._permits(declare, commands.Exchange.DeclareOk)
        delete = commands.Exchange.Delete(exchange=name, if_unused=True)
        return await self._permits(delete, commands.Exchange.DeleteOk)

    async def may_bind(self, exchange: str, key: str) -> bool:
        return not await self._bind(exchange, key)

    async def publish(self, exchange: str, key: str) -> int:
        """Publish in the name of another user; return the code of the refusal, 0 if there is none."""
        look = commands.Queue.Declare(queue=self.queue, passive=True)

        async def attempt(channel: Channel) -> None:
            self._inspector.publish(channel, key, exchange, user_id=_NOBODY)
            await channel.call(look, commands.Queue.DeclareOk)  # answered after the publish

        refusal = await self._inspector.refusal(attempt)
        return 0 if refusal is None else refusal.code

    async def _bind(self, exchange: str, key: str) -> str:
        """Bind the own queue for a moment; return the kind of thing that the broker refuses: `topic`."""
        bind = commands.Queue.Bind(queue=self.queue, exchange=exchange, routing_key=key)
        unbind = commands.Queue.Unbind(queue=self.queue, exchange=exchange, routing_key=key)

        async def attempt(channel: Channel) -> None:
            await channel.call(bind, commands.Queue.BindOk)
            await channel.call(unbind, commands.Queue.UnbindOk)

        refusal = await self._inspector.refusal(attempt)
        if refusal is None or refusal.code != ACCESS_REFUSED:
            return ""
        return found[1] if (found := _REFUSED.search(refusal.reason)) else "exchange"

    async def _permits(self, method: Method, answer: type[Method]) -> bool:
        refusal = await self._inspector.refusal(lambda channel: channel.call(method, answer))
        return refusal is None or refusal.code != ACCESS_REFUSED


_EVERYTHING = KeyPatterns(".*", ".*")


def _names(mapper: NameMapper, holder: Holder) -> Iterator[str]:
    """Names of exchanges and queues on the broker: ours, those of others, and of none."""
    queues = [topology.dispatch_queue(queue) for queue in (*holder.queues, _NOBODY)]
    own = (
        topology.reply_queue(topology.reply_address(_NOBODY, uuid4().hex)).name,
        topology.reply_queue(topology.reply_address(holder.user, uuid4().hex)).name,
        topology.observer_queue(_NOBODY, "all"),
        topology.observer_queue(holder.user, "all"),
        topology.control_queue(_NOBODY, ()).name,
        topology.heartbeats_queue(_NOBODY).name,
        topology.INSTALLATION,
    )
    names = [exchange.name for exchange in topology.EXCHANGES]
    names += [*(queue.name for queue in (*topology.TOPOLOGY.queues, *queues)), *own]
    yield from dict.fromkeys(mapper.to_broker(name) for name in names)
    yield from ("amq.direct", "amq.fanout", f"{_NOBODY}.queue")


def _keys(holder: Holder, exchange: str) -> Iterator[str]:
    """Keys of an exchange: of each event, about things of others, and the patterns that take more."""
    if not exchange:
        yield f"{_NOBODY}.queue"
        return
    yield from ("#", "*.#", "", f"{_NOBODY}\n", topology.pulse_key(_NOBODY))
    routes = {route for kind in declared_events().values() for route in kind.routes}
    types = [one.replace("*", _NOBODY) for one in (_NOBODY, *holder.job_types, *holder.child_types)]
    for key in sorted({route.key for route in routes if route.exchange == exchange}):
        for job_type, queue in product(types, (_NOBODY, *holder.queues[:1])):
            own = key.replace("{job_type}", job_type).replace("{queue}", queue)
            yield re.sub(r"\{\w+\}", _NOBODY, own)
        yield f"{key.partition('.')[0].partition('{')[0] or _NOBODY}.#"


def _matches(pattern: str, name: str) -> bool:
    """True if the broker's regular expression matches, in Python's words."""
    return pattern != NOTHING and re.search(pattern.replace(r"\z", r"\Z"), name) is not None
