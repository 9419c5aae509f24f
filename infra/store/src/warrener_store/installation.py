"""The installation: the id that ties one store to one namespace of a broker.

A second store on the same namespace would take the requests of the first one. And its duties, such as
pruning: one process at a time carries each out (suite: `tests/conformance/test_store_announcements.py`)."""

import re
from collections.abc import Awaitable, Callable
from datetime import datetime
from uuid import UUID

from warrener_contracts.topology import Exchange, earlier_installation_exchange, installation_exchange
from warrener_store.databases.session import SqlSession
from warrener_store.encoding import escape, unescape

_OTHER_ID = "alternate"  # named by a refusal for another id
_ID = re.compile(r"'(?:[^' ]+\.installation\.)?([0-9a-f]{4,32})")


class Installations(SqlSession):
    """The id of the installation, and its secret."""

    async def installation(self, candidate: UUID | None = None) -> UUID | None:
        """The id; `candidate` if there is none yet. None: no service has started yet."""
        found = await self._query("installation")
        if not found and candidate is not None:
            await self._put_rows("keep_installation", [(self.codec.encode_id(candidate),)])
            found = await self._query("installation")  # another service may have been first
        return self.codec.decode_id(found[0][0]) if found else None

    async def installation_secret(self, installation_id: UUID, candidate: str) -> str:
        """The secret of the installation; `candidate` if there is none yet, as that of `installation_id` if
        no service has started yet. The ids of ticks derive from it: it is shown nowhere."""
        found = await self._change("installation_secret", self.codec.encode_id(installation_id), candidate)
        return str(found[0][0])


class Duties(SqlSession):
    """Claims of duties. A holder that dies loses its claim by time."""

    async def claim_duty(self, duty: str, holder: str, now: datetime, until: datetime) -> bool:
        """True if `holder` alone carries out `duty` until then: no other claim is in force at `now`."""
        moments = self.codec.encode_moment(now), self.codec.encode_moment(until)
        return bool(await self._change("claim_duty", escape(duty), escape(holder), *moments))

    async def duties(self, now: datetime) -> dict[str, str]:
        """The holders of the duties whose claims are in force at `now`, by duty."""
        found = await self._query("duties", self.codec.encode_moment(now))
        return {unescape(duty): unescape(holder) for duty, holder in found}


class ForeignBroker(Exception):
    """The namespace on the broker belongs to the installation of another store."""


async def claim_namespace(
    store: Installations,
    claim: Callable[[Exchange], Awaitable[None]],
    *,
    candidate: UUID,
    refused: type[Exception],
    namespace: str,
) -> None:
    """Claim the broker's namespace for the store, or check that it belongs to the store.

    `candidate` becomes the id of a store that has none. `claim` raises `refused` if the exchange exists with
    another id, or may not be made. Services of the previous version know its earlier form alone, which comes
    first: a user who may not write to an alternate with a bare id makes the other one. Raises ForeignBroker.
    """
    installation_id = await store.installation(candidate) or candidate
    earlier, refusals = earlier_installation_exchange(installation_id), list[Exception]()
    for exchange in (earlier, installation_exchange(installation_id), earlier):  # another may be first
        try:
            return await claim(exchange)
        except refused as error:
            refusals.append(error)
    for refusal in refusals:
        if (other := other_installation(str(refusal), installation_id)) is not None:
            raise ForeignBroker(describe_foreign_broker(namespace, other, installation_id)) from refusal
    raise refusals[1]


def other_installation(refusal: str, installation_id: UUID) -> str | None:
    """The other id in a broker's refusal, as far as the refusal shows it; None if the refusal is not about
    the ids."""
    if _OTHER_ID not in refusal:
        return None
    found = [each for each in _ID.findall(refusal) if not installation_id.hex.startswith(each)]
    return found[-1] if found else "unknown"


def describe_foreign_broker(namespace: str, other: str, installation_id: UUID) -> str:
    """The error text: the mismatch and its remedies."""
    return (
        f"expected namespace {namespace!r} on the broker to belong to the store's installation"
        f" {installation_id.hex}, got installation {other}: another system uses it; name that system's store,"
        " or choose another WARRENER_NAMESPACE, or, if this store replaces that one, run"
        " `warrener topology --adopt`"
    )
