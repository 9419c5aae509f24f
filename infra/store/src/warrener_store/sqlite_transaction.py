"""What the parts of the store in a SQLite file know of its transaction."""

from collections.abc import Iterable, Sequence
from typing import Any, Protocol


class Transaction(Protocol):
    """What is done between BEGIN and COMMIT."""

    async def ask(self, name: str, *parameters: Any) -> Sequence[Sequence[Any]]:
        """The rows that the statement of this name gives."""
        ...

    async def run(self, name: str, rows: Iterable[tuple[Any, ...]]) -> None:
        """Run the statement of this name for each of these rows."""
        ...
