"""Whether the broker's namespace belongs to the store, as `up` and `topology --adopt` ask it."""

from uuid import UUID

from warrener.broker_inspector import open_inspector
from warrener.command_runner import connect_store
from warrener.endpoints import ResolvedEndpoints
from warrener.errors import CommandError, ExitCode
from warrener_contracts.topology import INSTALLATION, REQUESTS_QUEUE
from warrener_runtime.bus import TopologyMismatch, open_bus
from warrener_runtime.clock import SystemEntropy
from warrener_store.installation import ForeignBroker, claim_namespace


async def claim(endpoints: ResolvedEndpoints) -> UUID:
    """Make the namespace belong to the store, or see that it does; the id. Raises CommandError."""
    bus = open_bus(endpoints.broker_url, name="warrener.command", namespace=endpoints.namespace)
    async with connect_store(endpoints) as store:
        await bus.start()
        try:
            await claim_namespace(
                store,
                bus.declare,
                candidate=SystemEntropy().new_id(),
                refused=TopologyMismatch,
                namespace=endpoints.namespace,
            )
        except ForeignBroker as error:
            sentence, _, do = str(error).partition("; ")
            raise CommandError(sentence, do=do, code=ExitCode.USAGE) from error
        finally:
            await bus.close()
        found = await store.installation()
        assert found is not None
        return found


async def adopt(endpoints: ResolvedEndpoints) -> UUID:
    """Have the namespace belong to this store from now on; the id. Raises CommandError while services of the
    other store are at work: they would go on with its requests."""
    async with open_inspector(endpoints.broker_url, endpoints.namespace) as inspector:
        seen = await inspector.queue(REQUESTS_QUEUE.name)
        if seen is not None and seen.consumers:
            raise CommandError(
                f"expected no scheduler at work in namespace {endpoints.namespace!r}, got {seen.consumers}",
                do="stop the services of the other store first",
            )
        await inspector.delete_exchange(INSTALLATION)
    return await claim(endpoints)
