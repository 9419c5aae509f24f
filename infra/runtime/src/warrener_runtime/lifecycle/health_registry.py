"""What the parts of a process say about whether it can do its work."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextvars import ContextVar

Check = Callable[[], Awaitable[str | None]]


class NotReady(Exception):
    """This part cannot do its work now; the message says why."""


class ConsumerStalled(Exception):
    """A consumer has heard nothing from the broker for so long that only a fresh process will help."""


class HealthRegistry:
    """Checks by name, filled by the parts themselves while they live, so that no wiring can forget one.

    The parts find it by `current_health_registry`: whatever is started under `serve` belongs to that service.
    """

    def __init__(self, *, give_up_deaf_after: float = 120.0, give_back_timeout: float = 5.0) -> None:
        self.give_up_deaf_after = give_up_deaf_after
        self.give_back_timeout = give_back_timeout
        self._checks: dict[str, Check] = {}
        self._given_up = asyncio.Event()
        self._hurries: list[Callable[[], None]] = []
        self.reason: Exception | None = None

    @property
    def checks(self) -> dict[str, Check]:
        """Every check, as of now. One that raises says that its part is not ready."""
        return dict(self._checks)

    def register(self, name: str, check: Check) -> None:
        """Ask this check from now on."""
        self._checks[name] = check

    def unregister(self, name: str) -> None:
        """Ask it no more."""
        self._checks.pop(name, None)

    def give_up(self, reason: Exception) -> None:
        """End the process: it cannot recover by itself. The first reason counts."""
        self.reason = self.reason or reason
        self._given_up.set()

    def on_hurry(self, hurry: Callable[[], None]) -> None:
        """Call this when the process is asked to end for the second time: its drain shall not take long."""
        self._hurries.append(hurry)

    def hurry(self) -> bool:
        """Let all parts that can hurry do so; whether there are any."""
        for hurry in self._hurries:
            hurry()
        return bool(self._hurries)

    async def wait_given_up(self) -> Exception:
        """Wait until a part gives up, and return its reason."""
        await self._given_up.wait()
        assert self.reason is not None
        return self.reason


current_health_registry: ContextVar[HealthRegistry | None] = ContextVar("warrener_vitals", default=None)
"""The vitals of the service that this task belongs to; None where none is served, as in a test."""
