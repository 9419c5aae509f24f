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
class ReadinessReport:
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
        self._lock = asyncio.Lock()
        self._last: tuple[float, ReadinessReport] | None = None

    async def report(self) -> ReadinessReport:
        """What the checks say now, or said less than a second ago."""
        async with self._lock:
            now = self._clock.monotonic()
            if self._last is not None and now - self._last[0] < REMEMBER_SECONDS:
                return self._last[1]
            report = await self._run_checks()
            self._last = (self._clock.monotonic(), report)
            return report

    async def _run_checks(self) -> ReadinessReport:
        checks = self._checks()
        outcomes = await asyncio.gather(*(self._run_check(check) for check in checks.values()))
        results = dict(zip(checks, outcomes, strict=True))
        return ReadinessReport(
            {name: wrong for name, (wrong, _) in results.items()},
            {name: note for name, (_, note) in results.items() if note is not None},
        )

    async def _run_check(self, check: Check) -> tuple[str | None, str | None]:
        """What is wrong, and what is worth knowing."""
        try:
            async with asyncio.timeout(self._timeout):
                return None, await check()
        except TimeoutError:
            return f"no answer within {self._timeout:g} s", None
        except Exception as error:  # noqa: BLE001 - whatever is wrong with it is what was asked for
            return mask(str(error)) or type(error).__name__, None
