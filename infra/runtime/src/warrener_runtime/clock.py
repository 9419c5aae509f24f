"""Time, identifiers and randomness as parameters: a simulation passes its own."""

import asyncio
import random
import secrets
import time
from datetime import UTC, datetime
from typing import Protocol
from uuid import UUID

import uuid_utils
from uuid_utils.compat import uuid7


class Clock(Protocol):
    """The wall clock, the monotonic clock, and waiting."""

    def now(self) -> datetime:
        """The time in UTC."""
        ...

    def monotonic(self) -> float:
        """Seconds that never go back."""
        ...

    @property
    def trusted(self) -> bool:
        """True if expiry may be judged by `now()`."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Wait."""


class SystemClock:
    """The clock of the machine."""

    def now(self) -> datetime:
        return datetime.now(UTC)

    def monotonic(self) -> float:
        return time.monotonic()

    @property
    def trusted(self) -> bool:
        return True

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


async def wait_at_most(seconds: float, event: asyncio.Event, clock: Clock) -> bool:
    """Wait for `event`, but no longer than `seconds` of `clock`; True if it has happened."""
    arrival, patience = asyncio.create_task(event.wait()), asyncio.create_task(clock.sleep(seconds))
    try:
        await asyncio.wait({arrival, patience}, return_when=asyncio.FIRST_COMPLETED)
        return event.is_set()
    finally:
        arrival.cancel()
        patience.cancel()


class Entropy(Protocol):
    """New identifiers and random numbers."""

    def new_id(self) -> UUID:
        """Make a UUIDv7: unique, and sorted by time."""
        ...

    def new_id_text(self) -> str:
        """Make a UUIDv7 as text, where only text is needed."""
        ...

    def new_secret(self) -> str:
        """Make a secret of 32 bytes, in hexadecimal."""
        ...

    def chance(self) -> float:
        """A number in [0, 1)."""
        ...


class SystemEntropy:
    """The randomness of the machine."""

    def new_id(self) -> UUID:
        return uuid7()

    def new_id_text(self) -> str:
        return str(uuid_utils.uuid7())

    def new_secret(self) -> str:
        return secrets.token_hex(32)

    def chance(self) -> float:
        return random.random()  # noqa: S311 - spreads retries, no secret
