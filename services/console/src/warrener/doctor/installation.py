"""Check of the installation: the broker's namespace and the store belong together."""

from warrener.doctor.finding import Finding, odd, well, wrong
from warrener.exits import CommandError
from warrener.places import Places
from warrener.probe import probing
from warrener.running import store_at
from warrener_contracts.topology import INSTALLATION, installation_exchange
from warrener_store import StoreError
from warrener_store.installation import describe_foreign_broker, other_installation

_CHECK = "installation"


async def check_installation(places: Places) -> Finding | None:
    """None where the broker or the store does not answer: other checks say that."""
    try:
        async with store_at(places) as store, probing(places.broker_url, places.namespace) as probe:
            installation_id = await store.installation()
            if installation_id is None or not await probe.exchange_exists(INSTALLATION):
                return odd(
                    _CHECK,
                    f"namespace {places.namespace!r} belongs to no store yet",
                    "start a scheduler or a supervisor",
                )
            said = await probe.exchange_differs(installation_exchange(installation_id))
    except (CommandError, StoreError):
        return None
    if said is None:
        return well(_CHECK, f"namespace {places.namespace!r} belongs to this store ({installation_id.hex})")
    other = other_installation(said, installation_id) or "unknown"
    sentence, _, do = describe_foreign_broker(places.namespace, other, installation_id).partition("; ")
    return wrong(_CHECK, sentence, do)
