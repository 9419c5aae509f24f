"""What every list does: ask the store, and show rows to people or machines."""

from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, datetime
from typing import Any, TypeVar

from rich.table import Table

from warrener.places import find_places
from warrener.running import run, store_at
from warrener.shown.screen import err, out, print_json
from warrener_store import Store

R = TypeVar("R")


def show_list(
    store: str | None,
    question: Callable[[Store], Awaitable[Sequence[R]]],
    as_table: Callable[[Sequence[R], datetime], Table],
    *,
    as_json: bool,
    none: str,
    for_machines: Callable[[R], Any] = lambda row: row,
) -> None:
    """One question, one table, or one JSON array."""

    async def ask() -> Sequence[R]:
        async with store_at(find_places(store=store)) as open_store:
            return await question(open_store)

    rows = run(ask())
    if as_json:
        print_json([for_machines(row) for row in rows])
    elif rows:
        out().print(as_table(rows, datetime.now(UTC)))
    else:
        err().print(f"[soft]{none}[/]")
