"""Running named statements: the base of every aggregate's implementation in both databases."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Generator, Iterable, Sequence
from contextlib import contextmanager
from datetime import datetime
from time import perf_counter
from typing import Any, TypeVar
from uuid import UUID

from warrener_store.errors import StoreFull
from warrener_store.mapping import ColumnCodec, RowMapper

R = TypeVar("R")

_FULL_PERIOD = 15.0  # seconds; then writes are tried again
Rows = Sequence[Sequence[Any]]
Change = tuple[str, tuple[Any, ...]]
"""The name of a statement that writes, and its parameters."""
StatementObserver = Callable[[float, str, str], None]
"""Takes the seconds of a statement, `read` or `write`, and the class of its error or nothing."""


class SqlSession(ABC):
    """Runs the statements of `statements.py` and gives parameters the form that a database takes."""

    codec: ColumnCodec
    observer: StatementObserver | None = None
    _full: tuple[float, str] | None = None  # when a write last found the disk full, and its error

    @contextmanager
    def _timed(self, operation: str) -> Generator[None]:
        """Pass the time and the error of what runs inside to the observer; note a full disk."""
        began, error_type = perf_counter(), ""
        try:
            yield
        except Exception as error:
            error_type = type(error).__name__
            if isinstance(error, StoreFull):
                self._full = perf_counter(), str(error)
            raise
        finally:
            if self.observer is not None:
                self.observer(perf_counter() - began, operation, error_type)

    def _require_room(self) -> None:
        """Raise StoreFull if the disk was full for a write of the last seconds; reads do not notice it."""
        if self._full is not None and perf_counter() - self._full[0] < _FULL_PERIOD:
            raise StoreFull(self._full[1])

    @abstractmethod
    async def start(self) -> None:
        """Connect. Raises StoreNotMigrated if the tables are not those of this version."""

    @abstractmethod
    async def close(self) -> None:
        """Disconnect. May be called twice, or never started."""

    @abstractmethod
    async def ping(self) -> None:
        """Make one round trip. Raises StoreUnavailable if the database does not answer or is read-only."""

    @abstractmethod
    async def time(self) -> datetime:
        """The database's clock, in UTC: all services that share the store compare times by it."""

    @abstractmethod
    async def _query(self, name: str, *parameters: Any) -> Rows:
        """Run the statement of this name, which changes nothing."""

    @abstractmethod
    async def _query_text(self, text: str, parameters: Sequence[Any]) -> Rows:
        """Run this statement, which changes nothing; its parameters are `$1`, `$2` …"""

    async def _rows(self, mapper: RowMapper[R], name: str, *parameters: Any) -> list[R]:
        """The rows that the statement of this name finds."""
        return [mapper.from_row(values, self.codec) for values in await self._query(name, *parameters)]

    @abstractmethod
    async def _change(self, name: str, *parameters: Any) -> Rows:
        """Run the statement of this name and commit it; the rows that it returns."""

    @abstractmethod
    async def _change_together(self, *changes: Change) -> None:
        """Run these in order and commit them together."""

    @abstractmethod
    async def _put_rows(self, name: str, rows: Sequence[tuple[Any, ...]]) -> None:
        """Run the statement of this name for these rows, together; nothing if there are none."""

    async def _put(self, mapper: RowMapper[R], name: str, rows: Iterable[R]) -> None:
        """The same for the columns of these rows."""
        await self._put_rows(name, [mapper.to_row(row, self.codec) for row in rows])

    @abstractmethod
    def _ids(self, ids: Collection[UUID]) -> Any:
        """These ids as one parameter."""

    @abstractmethod
    def _names(self, names: Collection[str]) -> Any:
        """These names, escaped, as one parameter."""
