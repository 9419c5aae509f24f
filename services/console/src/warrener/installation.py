"""The installation: the broker's namespace belongs to one store; checked, claimed and adopted here."""

import asyncio
from time import monotonic
from uuid import UUID

from warrener.context import SOURCE, ResolvedEndpoints, connect_store
from warrener.doctor import CheckResult, failed, ok, warning
from warrener.doctor.inspector import open_inspector
from warrener.errors import CommandError, ExitCode
from warrener_contracts.topology import (
    INSTALLATION,
    REQUESTS_QUEUE,
    earlier_installation_exchange,
    installation_exchange,
)
from warrener_runtime.bus import TopologyMismatch, open_bus
from warrener_runtime.clock import SystemEntropy
from warrener_store import StoreError, installation

_CHECK = "installation"
_CONSUMERS_WITHIN = 5.0  # seconds; a quorum queue counts the consumers of a killed node for up to a second
_LOOK_INTERVAL = 0.1  # seconds


async def claim(endpoints: ResolvedEndpoints) -> UUID:
    """Claim the namespace for the store and return the installation's id. Raises CommandError if another
    store has it."""
    bus = open_bus(endpoints.broker_url, name=SOURCE, namespace=endpoints.namespace)
    async with connect_store(endpoints) as store:
        await bus.start()
        try:
            await installation.claim_namespace(
                store,
                bus.claim,
                candidate=SystemEntropy().new_id(),
                refused=TopologyMismatch,
                namespace=endpoints.namespace,
            )
        except installation.ForeignBroker as error:
            sentence, _, do = str(error).partition("; ")
            raise CommandError(sentence, do=do, code=ExitCode.USAGE) from error
        finally:
            await bus.close()
        found = await store.installation()
        assert found is not None
        return found


async def adopt(endpoints: ResolvedEndpoints) -> UUID:
    """Give the namespace to this store and return the installation's id.

    Raises CommandError while schedulers of the other store run: they would go on with its requests.
    """
    async with open_inspector(endpoints.broker_url, endpoints.namespace) as inspector:
        give_up_at = monotonic() + _CONSUMERS_WITHIN
        while (seen := await inspector.queue(REQUESTS_QUEUE.name)) is not None and seen.consumers:
            if monotonic() >= give_up_at:
                sentence = f"expected no scheduler at work in namespace {endpoints.namespace!r}"
                raise CommandError(
                    f"{sentence}, got {seen.consumers}", do="stop the services of the other store first"
                )
            await asyncio.sleep(_LOOK_INTERVAL)
        await inspector.delete_exchange(INSTALLATION)
    return await claim(endpoints)


async def check_installation(endpoints: ResolvedEndpoints) -> CheckResult | None:
    """Require that the namespace belongs to the store. None if either does not answer."""
    try:
        async with (
            connect_store(endpoints) as store,
            open_inspector(endpoints.broker_url, endpoints.namespace) as inspector,
        ):
            installation_id = await store.installation()
            if installation_id is None or not await inspector.exchange_exists(INSTALLATION):
                return warning(
                    _CHECK,
                    f"namespace {endpoints.namespace!r} belongs to no store yet",
                    "start a scheduler or a supervisor",
                )
            mismatch = await inspector.exchange_differs(installation_exchange(installation_id))
            earlier = earlier_installation_exchange(installation_id)
            if mismatch is not None and await inspector.exchange_differs(earlier) is None:
                mismatch = None
    except (CommandError, StoreError):
        return None
    if mismatch is None:
        return ok(_CHECK, f"namespace {endpoints.namespace!r} belongs to this store ({installation_id.hex})")
    other = installation.other_installation(mismatch, installation_id) or "unknown"
    sentence, _, do = installation.describe_foreign_broker(
        endpoints.namespace, other, installation_id
    ).partition("; ")
    return failed(_CHECK, sentence, do)
