"""What every list does: ask the store, and show rows to people or machines."""

from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, datetime
from typing import Any, TypeVar

from rich.table import Table

from warrener.command_runner import connect_store, run
from warrener.endpoints import resolve_endpoints
from warrener.render.screen import err, out, print_json
from warrener_store import Store

R = TypeVar("R")


def show_list(
    store: str | None,
    query: Callable[[Store], Awaitable[Sequence[R]]],
    as_table: Callable[[Sequence[R], datetime], Table],
    *,
    as_json: bool,
    none: str,
    to_json: Callable[[R], Any] = lambda row: row,
) -> None:
    """One question, one table, or one JSON array."""

    async def fetch() -> Sequence[R]:
        async with connect_store(resolve_endpoints(store=store)) as open_store:
            return await query(open_store)

    rows = run(fetch())
    if as_json:
        print_json([to_json(row) for row in rows])
    elif rows:
        out().print(as_table(rows, datetime.now(UTC)))
    else:
        err().print(f"[soft]{none}[/]")
