"""`python -m examples.orders.demo`: three orders, one of them undone, while an agent is killed.

Exits 0 only if the table of effects has each once, as the orders ended.
"""

import asyncio
import shutil
import sqlite3
import sys
from contextlib import closing
from pathlib import Path

from examples.warren import Warren

from warrener_client import Client, JobFailed

ORDERS = {
    1: {"item": "lamp", "cents": 4_900},
    2: {"item": "anvil", "cents": 9_900},
    3: {"item": "crown", "cents": 12_000},
}
EXPECTED = {
    1: ["reserved", "charged", "shipped"],
    2: ["reserved", "charged", "refunded", "released"],
    3: ["reserved", "charged", "shipped"],
}
PATIENCE = 90.0  # seconds for an order


def main() -> int:
    """Run the story; the exit code."""
    data = Path(".warrener/orders").absolute()
    shutil.rmtree(data, ignore_errors=True)
    warren = Warren(data, "examples.orders.handlers")
    print("Starting a private RabbitMQ, the scheduler, the supervisor and two agents …")
    try:
        warren.start()
        asyncio.run(order_all(warren, data))
    finally:
        warren.stop()
    found = {order: effects(data, order) for order in ORDERS}
    for order, happened in found.items():
        print(f"order {order}: {', '.join(happened)}")
    return 0 if found == EXPECTED else 1


async def order_all(warren: Warren, data: Path) -> None:
    """Request the orders, kill an agent while one waits for its approval, approve it."""
    async with Client(warren.broker_url()) as client:
        jobs = {
            order: await client.request("orders.fulfil", {"order": order, **arguments})
            for order, arguments in ORDERS.items()
        }
        while "charged" not in effects(data, 3):  # noqa: ASYNC110 - another process writes it
            await asyncio.sleep(0.1)
        print(f"kill -9 of an agent (process {warren.kill('agent')}); Ada approves order 3")
        await client.send_signal(jobs[3].job_id, "approval", {"granted": True, "by": "Ada"})
        for order, job in jobs.items():
            try:
                print(f"order {order} ends with {await job.result(timeout=PATIENCE)}")
            except JobFailed as failed:
                print(f"order {order} was undone: {failed}")


def effects(data: Path, order: int) -> list[str]:
    """The effects of an order, in the order in which they were committed; none before the table is there."""
    with closing(sqlite3.connect(data / "ledger.db", timeout=30)) as ledger:
        if not ledger.execute("SELECT 1 FROM sqlite_master WHERE name = 'effects'").fetchall():
            return []
        rows = ledger.execute("SELECT effect FROM effects WHERE customer_order = ? ORDER BY rowid", [order])
        return [effect for (effect,) in rows]


if __name__ == "__main__":
    sys.exit(main())
