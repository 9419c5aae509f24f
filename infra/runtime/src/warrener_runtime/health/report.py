"""Ask all checks at once, each within its time, and remember the answer for a moment."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field

from warrener_runtime.clock import Clock, SystemClock
from warrener_runtime.settings.secrets import mask

Check = Callable[[], Awaitable[str | None]]
"""Raises what is wrong; may return a note for people, which changes nothing else."""

CHECK_SECONDS = 5.0
REMEMBER_SECONDS = 1.0


@dataclass(frozen=True)
class Report:
    """What each check said: None if all is well, else what is wrong. `notes`: what is worth knowing of those
    that are well."""

    checks: Mapping[str, str | None]
    notes: Mapping[str, str] = field(default_factory=dict[str, str])

    @property
    def ready(self) -> bool:
        """Whether all is well."""
        return not any(self.checks.values())


class Readiness:
    """The checks of a service. They are asked at most once a second, however often others ask."""

    def __init__(
        self,
        checks: Callable[[], Mapping[str, Check]],
        *,
        timeout: float = CHECK_SECONDS,
        clock: Clock | None = None,
    ) -> None:
        self._checks = checks
        self._timeout = timeout
        self._clock = clock or SystemClock()
        self._asking = asyncio.Lock()
        self._last: tuple[float, Report] | None = None

    async def report(self) -> Report:
        """What the checks say now, or said less than a second ago."""
        async with self._asking:
            now = self._clock.monotonic()
            if self._last is not None and now - self._last[0] < REMEMBER_SECONDS:
                return self._last[1]
            report = await self._ask()
            self._last = (self._clock.monotonic(), report)
            return report

    async def _ask(self) -> Report:
        checks = self._checks()
        answers = await asyncio.gather(*(self._ask_one(check) for check in checks.values()))
        told = dict(zip(checks, answers, strict=True))
        return Report(
            {name: wrong for name, (wrong, _) in told.items()},
            {name: note for name, (_, note) in told.items() if note is not None},
        )

    async def _ask_one(self, check: Check) -> tuple[str | None, str | None]:
        """What is wrong, and what is worth knowing."""
        try:
            async with asyncio.timeout(self._timeout):
                return None, await check()
        except TimeoutError:
            return f"no answer within {self._timeout:g} s", None
        except Exception as error:  # noqa: BLE001 - whatever is wrong with it is what was asked for
            return mask(str(error)) or type(error).__name__, None
