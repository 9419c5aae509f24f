"""Time, identifiers and chance, as things that are handed in: a simulation hands in its own."""

import asyncio
import random
import time
from datetime import UTC, datetime
from typing import Protocol
from uuid import UUID

import uuid_utils
from uuid_utils.compat import uuid7


class Clock(Protocol):
    """The wall clock, the monotonic clock, and waiting."""

    def now(self) -> datetime:
        """This moment in UTC."""
        ...

    def monotonic(self) -> float:
        """Seconds that never go back."""
        ...

    @property
    def trusted(self) -> bool:
        """True if what has expired may be judged by `now()`."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Wait."""
        ...


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


class Entropy(Protocol):
    """New identifiers and chance."""

    def new_id(self) -> UUID:
        """A UUIDv7: unique, and later ones sort after earlier ones."""
        ...

    def new_id_text(self) -> str:
        """As `new_id`, as text: for what is only ever written."""
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

    def chance(self) -> float:
        return random.random()  # noqa: S311 - it spreads retries, it keeps no secret
