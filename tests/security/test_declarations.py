"""Who makes exchanges and queues: those who may; all others look.

To look needs no permission before RabbitMQ 4.3, and from then on any one for the piece. A piece at which
a user may not look counts as there.
"""

import asyncio
import contextlib
import re
from collections.abc import Iterator
from uuid import UUID, uuid4

import aiormq
import pytest
from aiormq.abc import AbstractChannel
from structlog.testing import capture_logs
from tests.broker_access import channel_on, delete_queues
from tests.conformance.bus_rigs import make_message
from tests.faults.broker_users import BrokerUser
from tests.security.attacks import attack
from tests.servers.kinds import RabbitMQServer

from warrener_client import Client
from warrener_client.errors import RequestUnroutable
from warrener_client.testing import StandIn
from warrener_contracts import topology
from warrener_contracts.permissions import NOTHING
from warrener_runtime.bus import Bus, BusUnreachable, DeclareMode, PublishResult, TopologyMismatch, open_bus
from warrener_runtime.bus.port import DeclarationForbidden
from warrener_runtime.namespace import DEFAULT_NAMESPACE
from warrener_store.installation import ForeignBroker, claim_namespace
from warrener_store.memory import MemoryStore

ASKER = (r"^warrener\.reply\.", r"^warrener\.(requests$|reply\.)", r"^warrener\.(events$|reply\.)")
"""What an asker configures, writes and reads."""
AGENT = (r"^warrener\.control\.", r"^warrener\.(status$|control)", r"^warrener\.(control|queue\.loading$)")


@pytest.fixture
def user(broker: RabbitMQServer, vhost_url: str) -> Iterator[BrokerUser]:
    one = BrokerUser(broker, vhost_url)
    yield one
    one.remove()


async def declared_by(
    url: str, *queues: topology.Queue, verify: bool = False, declare: DeclareMode = "if-missing"
) -> Bus:
    bus = open_bus(url, name="declares", declare=declare)
    await bus.start()
    try:
        await bus.declare(topology.TOPOLOGY.with_queues(queues), verify=verify)
    except BaseException:
        await bus.close()
        raise
    return bus


@pytest.mark.parametrize("declare", ["if-missing", "never"])
async def test_what_is_there_needs_no_right_to_declare_it(
    user: BrokerUser, vhost_url: str, declare: DeclareMode
) -> None:
    loading, control = topology.dispatch_queue("loading"), topology.control_queue("a-1", ["loading"])
    await (await declared_by(vhost_url, loading)).close()
    user.permit(*AGENT)
    bus = await declared_by(user.url, loading, control, declare=declare)
    try:
        assert (await bus.subscribe(loading.name, prefetch=1)).live
        assert (await bus.subscribe(control.name, prefetch=1)).live
    finally:
        await bus.close()


async def test_a_user_who_may_not_declare_compares_nothing_and_goes_on(
    user: BrokerUser, vhost_url: str
) -> None:
    await (await declared_by(vhost_url)).close()
    user.permit(*AGENT)
    await (await declared_by(user.url, verify=True)).close()


@attack("agent", "make the queue that a service misses", refused="configure permission; the error names it")
async def test_a_refused_declaration_names_the_right_the_user_and_the_line_to_run(
    user: BrokerUser, vhost_url: str
) -> None:
    user.permit(AGENT[0], write=r"^warrener\.", read=AGENT[2])  # so it may look everywhere
    with pytest.raises(DeclarationForbidden) as refused:
        await declared_by(user.url)
    first, text = topology.EXCHANGES[0].name, str(refused.value)
    assert f"the permission to configure exchange {first} for user {user.name}, got" in text
    assert f"rabbitmqctl set_permissions -p {user.vhost} {user.name} " in text
    assert f" 'CONFIGURE|^{re.escape(first)}$' WRITE READ`" in text, "the piece, and nothing else"


@attack("agent", "declare with a permission that was withdrawn", refused="permissions of the broker")
async def test_a_withdrawn_permission_holds_for_the_next_connection(user: BrokerUser) -> None:
    assert user.holds(".*", ".*", ".*")
    user.permit(*AGENT)
    assert user.holds(*AGENT)
    for exchange in topology.EXCHANGES:
        async with channel_on(user.url) as channel:
            with pytest.raises(aiormq.exceptions.ChannelAccessRefused):
                await channel.exchange_declare(exchange.name, exchange_type=exchange.kind, durable=True)


async def test_a_piece_at_which_a_user_may_not_look_counts_as_there(user: BrokerUser, vhost_url: str) -> None:
    loading = topology.dispatch_queue("loading")
    await (await declared_by(vhost_url, loading)).close()
    user.permit(NOTHING, NOTHING, NOTHING)
    with capture_logs() as logged:
        bus = await declared_by(user.url, loading)
    try:
        assert logged == []
        assert not (await bus.subscribe(loading.name, prefetch=1)).live
        message = make_message("one", "attempt.started", topology.STATUS)
        assert await bus.publish([message]) == [PublishResult.REFUSED]
    finally:
        await bus.close()


async def test_a_queue_at_which_a_user_may_not_look_has_an_unknown_number_of_messages(
    broker: RabbitMQServer, user: BrokerUser, vhost_url: str
) -> None:
    await (await declared_by(vhost_url)).close()
    user.permit(NOTHING, NOTHING, NOTHING)
    sees = tuple(map(int, broker.version().split(".")[:2])) < (4, 3)
    bus = open_bus(user.url, name="counts", declare="never")
    await bus.start()
    try:
        with contextlib.nullcontext() if sees else pytest.raises(BusUnreachable, match="access to queue"):
            assert (await bus.backlog(topology.STATUS_QUEUE.name)).waiting == 0
    finally:
        await bus.close()


@attack("asker", "make a queue, an exchange or a binding of its own", refused="configure permission")
@pytest.mark.parametrize("piece", ["queue", "exchange", "binding"])
async def test_an_asker_makes_nothing_but_its_reply_queue(
    user: BrokerUser, vhost_url: str, piece: str
) -> None:
    await (await declared_by(vhost_url)).close()
    user.permit(*ASKER)
    async with channel_on(user.url) as channel:
        with pytest.raises(aiormq.exceptions.ChannelAccessRefused):
            await _make(piece, channel)
    stand_in = StandIn(open_bus(vhost_url, name="stand-in"), {"hello.greet": lambda _: "hello"})
    async with stand_in, Client(user.url) as client:
        job = await client.request("hello.greet")
        assert await job.result(timeout=60) == "hello"


async def _make(piece: str, channel: AbstractChannel) -> None:
    if piece == "queue":
        await channel.queue_declare("warrener.queue.mine", durable=True)
    elif piece == "exchange":
        await channel.exchange_declare("warrener.mine", durable=True)
    else:
        await channel.queue_bind("warrener.status", "warrener.events", "#")


@pytest.mark.parametrize("declare", ["if-missing", "never"])
async def test_a_client_that_may_not_declare_the_queue_of_requests_names_it(
    user: BrokerUser, vhost_url: str, declare: DeclareMode
) -> None:
    await (await declared_by(vhost_url)).close()
    await asyncio.to_thread(delete_queues, vhost_url, topology.REQUESTS_QUEUE.name)
    user.permit(*ASKER)
    async with Client(user.url, declare=declare) as client:
        with pytest.raises(RequestUnroutable, match="got none; expected") as refused:
            await client.request("hello.greet")
    if declare == "never":
        assert "queue warrener.requests on the broker, got none, and WARRENER_DECLARE=never" in str(
            refused.value
        )
    else:
        assert f"queue warrener.requests for user {user.name}, got ACCESS_REFUSED; run" in str(refused.value)


async def test_never_makes_nothing_and_names_the_missing_piece(vhost_url: str) -> None:
    with pytest.raises(DeclarationForbidden, match=r"expected exchange warrener\.commands on the broker"):
        await declared_by(vhost_url, declare="never")
    async with channel_on(vhost_url) as channel:
        with pytest.raises(aiormq.exceptions.ChannelNotFoundEntity):
            await channel.exchange_declare(topology.COMMANDS, passive=True)


# -- the installation --------------------------------------------------------------------------------------


async def claimed(url: str, store: MemoryStore, namespace: str = DEFAULT_NAMESPACE) -> None:
    bus = open_bus(url, name="claims", namespace=namespace)
    await bus.start()
    try:
        await claim_namespace(
            store, bus.claim, candidate=uuid4(), refused=TopologyMismatch, namespace=namespace
        )
    finally:
        await bus.close()


@pytest.mark.parametrize("namespace", [DEFAULT_NAMESPACE, "shop-2"])
async def test_a_scheduler_with_the_rights_to_its_namespace_alone_claims_it(
    user: BrokerUser, namespace: str
) -> None:
    ours = f"^{namespace}\\."
    user.permit(ours, ours, ours)
    store = MemoryStore()
    for _ in range(2):
        await claimed(user.url, store, namespace)


async def claimed_as_before(url: str, namespace: str, installation_id: UUID) -> None:
    """Claim a namespace as services of the previous version do."""
    async with channel_on(url) as channel:
        await channel.exchange_declare(
            f"{namespace}.installation",
            exchange_type="fanout",
            durable=True,
            arguments={"alternate-exchange": installation_id.hex},
        )


async def test_a_service_of_the_previous_version_starts_after_one_of_this_one(
    user: BrokerUser, vhost_url: str
) -> None:
    store = MemoryStore()
    await claimed(vhost_url, store)
    mine = await store.installation()
    assert mine is not None
    await claimed_as_before(vhost_url, DEFAULT_NAMESPACE, mine)
    user.permit(*[rf"^{DEFAULT_NAMESPACE}\."] * 3)
    await claimed(user.url, store)


@attack("a second system", "take the requests of a namespace", refused="the id of the installation")
@pytest.mark.parametrize("namespace", [DEFAULT_NAMESPACE, "shop-2"])
async def test_a_namespace_that_an_earlier_version_has_claimed_stays_that_of_its_store(
    vhost_url: str, namespace: str
) -> None:
    store = MemoryStore()
    mine = await store.installation(uuid4())
    assert mine is not None

    await claimed_as_before(vhost_url, namespace, mine)
    await claimed(vhost_url, store, namespace)
    await claimed_as_before(vhost_url, namespace, mine)
    with pytest.raises(ForeignBroker, match=f"got installation {mine.hex[:4]}"):
        await claimed(vhost_url, MemoryStore(), namespace)
