"""Whether the broker's namespace belongs to the store, as `up` and `topology --adopt` ask it."""

from uuid import UUID

from warrener.exits import CommandError, Exit
from warrener.places import Places
from warrener.probe import probing
from warrener.running import store_at
from warrener_contracts.topology import INSTALLATION, REQUESTS_QUEUE
from warrener_runtime.bus import TopologyMismatch, open_bus
from warrener_runtime.clock import SystemEntropy
from warrener_store.installation import ForeignBroker, claim_namespace


async def claim(places: Places) -> UUID:
    """Make the namespace belong to the store, or see that it does; the id. Raises CommandError."""
    bus = open_bus(places.broker_url, name="warrener.command", namespace=places.namespace)
    async with store_at(places) as store:
        await bus.start()
        try:
            await claim_namespace(
                store,
                bus.declare,
                candidate=SystemEntropy().new_id(),
                refused=TopologyMismatch,
                namespace=places.namespace,
            )
        except ForeignBroker as error:
            sentence, _, do = str(error).partition("; ")
            raise CommandError(sentence, do=do, code=Exit.USAGE) from error
        finally:
            await bus.close()
        found = await store.installation()
        assert found is not None
        return found


async def adopt(places: Places) -> UUID:
    """Have the namespace belong to this store from now on; the id. Raises CommandError while services of the
    other store are at work: they would go on with its requests."""
    async with probing(places.broker_url, places.namespace) as probe:
        seen = await probe.queue(REQUESTS_QUEUE.name)
        if seen is not None and seen.consumers:
            raise CommandError(
                f"expected no scheduler at work in namespace {places.namespace!r}, got {seen.consumers}",
                do="stop the services of the other store first",
            )
        await probe.delete_exchange(INSTALLATION)
    return await claim(places)
