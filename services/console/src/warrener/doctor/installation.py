"""Check of the installation: the broker's namespace and the store belong together."""

from warrener.broker_inspector import open_inspector
from warrener.command_runner import connect_store
from warrener.doctor.check_result import CheckResult, failed, ok, warning
from warrener.endpoints import ResolvedEndpoints
from warrener.errors import CommandError
from warrener_contracts.topology import INSTALLATION, installation_exchange
from warrener_store import StoreError
from warrener_store.installation import describe_foreign_broker, other_installation

_CHECK = "installation"


async def check_installation(endpoints: ResolvedEndpoints) -> CheckResult | None:
    """None where the broker or the store does not answer: other checks say that."""
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
    except (CommandError, StoreError):
        return None
    if mismatch is None:
        return ok(_CHECK, f"namespace {endpoints.namespace!r} belongs to this store ({installation_id.hex})")
    other = other_installation(mismatch, installation_id) or "unknown"
    sentence, _, do = describe_foreign_broker(endpoints.namespace, other, installation_id).partition("; ")
    return failed(_CHECK, sentence, do)
