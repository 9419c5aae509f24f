"""The scheduler's calendar as a process that stays: an answer takes milliseconds, and blocks nothing."""

import asyncio
import json
import sys
from asyncio.subprocess import DEVNULL, PIPE, Process
from contextlib import suppress
from datetime import datetime
from importlib.util import find_spec
from typing import Any

from warrener.errors import CommandError, ExitCode
from warrener_contracts.events import SchedulePutData

_CALENDAR = "warrener_scheduler.calendar"
_MAX_LINE = 16 * 1024 * 1024  # bytes; 50,000 nominal times are two of them
_TIMEOUT = 5.0  # seconds; a rule whose ticks take longer is given up, and the process with it


class CalendarProcess:
    """Answers one query at a time; starts with the first one, and again after it has died."""

    def __init__(self, timeout: float = _TIMEOUT) -> None:
        self._timeout = timeout
        self._process: Process | None = None
        self._turn = asyncio.Lock()

    async def start(self) -> None:
        """Start the process, which the first query does otherwise. Raises CommandError if it cannot be."""
        async with self._turn:
            await self._running()

    async def preview_ticks(
        self,
        definition: SchedulePutData,
        count: int,
        put_at: datetime | None = None,
        after: datetime | None = None,
    ) -> list[dict[str, str]]:
        """The next ticks, those later than `after`, and the clock changes between them.

        Without `put_at` the schedule is one that is about to be put. Raises CommandError if a scheduler would
        refuse it.
        """
        query = {"schedule": _document(definition), "count": count, "put_at": put_at, "after": after}
        found: list[dict[str, str]] = await self._query(query)
        return found

    async def times_between(
        self, definition: SchedulePutData, put_at: datetime, begin: datetime, end: datetime, limit: int
    ) -> list[datetime]:
        """The nominal times from `begin` to `end`, both included, at most `limit`."""
        query = {
            "schedule": _document(definition),
            "put_at": put_at,
            "begin": begin,
            "end": end,
            "most": limit,
        }
        return [datetime.fromisoformat(text) for text in await self._query({"between": query})]

    async def close(self) -> None:
        """End the process, if one runs; the next query starts another."""
        process, self._process = self._process, None
        if process is not None:
            with suppress(ProcessLookupError):
                process.kill()
            await process.wait()

    async def _query(self, query: dict[str, Any]) -> Any:
        line = json.dumps(query, default=datetime.isoformat).encode() + b"\n"
        async with self._turn:
            try:
                async with asyncio.timeout(self._timeout):
                    answer = await self._exchange(line)
            except BaseException as error:  # what it still writes would be taken for the next answer
                await self.close()
                if isinstance(error, TimeoutError):
                    why = f"expected the ticks of the rule within {self._timeout:g} s, got none"
                    raise CommandError(why, do="make the rule simpler") from error
                raise
        if "error" in answer:
            raise CommandError(str(answer["error"]), code=ExitCode.USAGE)
        return answer["answer"]

    async def _running(self) -> Process:
        if self._process is None or self._process.returncode is not None:
            self._process = await _start()
        return self._process

    async def _exchange(self, line: bytes) -> dict[str, Any]:
        process = await self._running()
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(line)
        await process.stdin.drain()
        answer = await process.stdout.readline()
        if not answer:
            raise CommandError("expected an answer of the scheduler's calendar, got the end of its process")
        found: dict[str, Any] = json.loads(answer)
        return found


async def _start() -> Process:
    if find_spec("warrener_scheduler") is None:
        raise CommandError(
            "expected the scheduler to be installed, whose calendar this needs, got no module",
            do="pip install warrener-scheduler",
        )
    words = sys.executable, "-m", _CALENDAR, "--lines"
    return await asyncio.create_subprocess_exec(
        *words, stdin=PIPE, stdout=PIPE, stderr=DEVNULL, limit=_MAX_LINE
    )


def _document(definition: SchedulePutData) -> dict[str, Any]:
    return definition.model_dump(mode="json", exclude_none=True)
