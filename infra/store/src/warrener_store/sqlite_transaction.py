"""What the parts of the store in a SQLite file know of its transaction."""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any, Protocol


class WriteTransaction(Protocol):
    """What is done between BEGIN and COMMIT."""

    async def query(self, name: str, *parameters: Any) -> Sequence[Sequence[Any]]:
        """The rows that the statement of this name gives."""
        ...

    async def run(self, name: str, rows: Iterable[tuple[Any, ...]]) -> None:
        """Run the statement of this name for each of these rows."""
        ...


class CountingTransaction(WriteTransaction, Protocol):
    """What the state store's own transaction can do besides."""

    async def query_text(self, text: str, *parameters: Any) -> Sequence[Sequence[Any]]:
        """The rows that this statement gives; its parameters are `$1`, `$2` …"""
        ...

    async def count(self, moved: Counter[tuple[str, str]]) -> None:
        """Move the counts of (job type as the column keeps it, state)."""
        ...
