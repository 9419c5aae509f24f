"""Ask all checks at once, each within its time, and remember the answer for a moment."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass

from warrener_runtime.clock import Clock, SystemClock
from warrener_runtime.settings.secrets import mask

Check = Callable[[], Awaitable[None]]

CHECK_SECONDS = 5.0
REMEMBER_SECONDS = 1.0


@dataclass(frozen=True)
class Report:
    """What each check said: None if all is well, else what is wrong."""

    checks: Mapping[str, str | None]

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
        return Report(dict(zip(checks, answers, strict=True)))

    async def _ask_one(self, check: Check) -> str | None:
        try:
            async with asyncio.timeout(self._timeout):
                await check()
        except TimeoutError:
            return f"no answer within {self._timeout:g} s"
        except Exception as error:  # noqa: BLE001 - whatever is wrong with it is what was asked for
            return mask(str(error)) or type(error).__name__
        return None
