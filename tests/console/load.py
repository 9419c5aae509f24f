"""Request jobs at a rate until terminated: `python -m tests.console.load BROKER_URL RATE`."""

import asyncio
import sys

from warrener_client import Client, JobSpec

_PORTIONS = 5  # a second


async def request_steadily(url: str, rate: int) -> None:
    """Request `rate` jobs a second, in portions, by the clock: a late portion is not left out."""
    async with Client(url) as client:
        loop = asyncio.get_running_loop()
        began, portion = loop.time(), 0
        while True:
            portion += 1
            specs = [JobSpec("import.short", {"n": number}) for number in range(rate // _PORTIONS)]
            async for _ in client.request_many(specs, want_results=False):
                pass
            await asyncio.sleep(max(0.0, began + portion / _PORTIONS - loop.time()))


if __name__ == "__main__":
    asyncio.run(request_steadily(sys.argv[1], int(sys.argv[2])))
