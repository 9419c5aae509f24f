"""Limits failed sign-ins by address and by name, in bounded memory."""

from collections import OrderedDict
from collections.abc import Callable
from ipaddress import IPv6Address, ip_address

WINDOW = 300.0
"""Seconds after which a failure no longer counts."""
_NAME_FACTOR = 3  # a name is shared by addresses: another person must not lock it out as soon
_MAX_KEYS = 10_000


class LoginLimiter:
    """Counts failures. An address is blocked after `limit` of them within the window, a name after three
    times as many.

    Memory is bounded: of more than 10,000 addresses and names the one that failed the longest ago is
    forgotten.
    """

    def __init__(self, limit: int, clock: Callable[[], float]) -> None:
        self._limit, self._clock = limit, clock
        self._failures: OrderedDict[tuple[str, str], list[float]] = OrderedDict()

    def wait(self, address: str, name: str) -> float:
        """Seconds for which this address or name is blocked; 0: it may try."""
        waits = [self._wait(key, limit) for key, limit in self._keys(address, name)]
        return max(waits)

    def fail(self, address: str, name: str) -> None:
        """Count a failure."""
        now = self._clock()
        for key, limit in self._keys(address, name):
            recent = [moment for moment in self._failures.get(key, []) if moment > now - WINDOW]
            self._failures[key] = [*recent, now][-limit:]
            self._failures.move_to_end(key)
        while len(self._failures) > _MAX_KEYS:
            self._failures.popitem(last=False)

    def _keys(self, address: str, name: str) -> list[tuple[tuple[str, str], int]]:
        return [
            (("address", network_of(address)), self._limit),
            (("name", name[:64].casefold()), self._limit * _NAME_FACTOR),
        ]

    def _wait(self, key: tuple[str, str], limit: int) -> float:
        moments = self._failures.get(key, [])
        if len(moments) < limit:
            return 0.0
        return max(0.0, moments[-limit] + WINDOW - self._clock())


def network_of(address: str) -> str:
    """An IPv4 address, or the /64 network of an IPv6 address: one host has all of it."""
    try:
        found = ip_address(address)
    except ValueError:
        return address[:64]
    if isinstance(found, IPv6Address) and found.ipv4_mapped is None:
        return str(IPv6Address(int(found) >> 64 << 64))
    return str(found)
