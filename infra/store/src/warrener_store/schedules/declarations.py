"""Which declarations of schedules in agents' code are known: a port of its own, kept by the same engine
(`tests/conformance/test_schedule_declarations.py`)."""

from abc import abstractmethod
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Protocol

from warrener_store.encoding import encode
from warrener_store.records.codec import ColumnCodec


@dataclass(frozen=True, slots=True, kw_only=True)
class DeclarationRow:
    """One declaration that was taken up; never changed again."""

    name: str  # of the schedule
    fingerprint: str  # of what was declared
    job_type: str
    declared_by: str
    declared_at: datetime

    @property
    def key(self) -> tuple[str, str]:
        """What is unique."""
        return self.name, self.fingerprint


class ScheduleDeclarations(Protocol):
    """Every declaration that was ever taken up. They outlive their schedules: what is known is not news."""

    async def keep_declarations(self, rows: Sequence[DeclarationRow]) -> None:
        """Keep those that are not known yet."""
        ...

    async def declarations(
        self, names: Collection[str], job_types: Collection[str] = ()
    ) -> list[DeclarationRow]:
        """Those of these schedules, and those for these job types, by name and time."""
        ...


class SqlDeclarations(ScheduleDeclarations):
    """In both databases, in the same words; a database adds how a question is asked and rows are put."""

    codec: ColumnCodec

    @abstractmethod
    async def _query(self, name: str, *parameters: Any) -> Sequence[Sequence[Any]]:
        """Run the statement of this name, which changes nothing."""

    @abstractmethod
    async def _put_rows(self, name: str, rows: Sequence[tuple[Any, ...]]) -> None:
        """Run the statement of this name for these rows, which are some."""

    async def keep_declarations(self, rows: Sequence[DeclarationRow]) -> None:
        by_key = {row.key: row for row in reversed(rows)}
        await self._put_rows(
            "keep_declaration",
            [
                (
                    row.name,
                    row.fingerprint,
                    row.job_type,
                    row.declared_by,
                    self.codec.encode_moment(row.declared_at),
                )
                for _, row in sorted(by_key.items())
            ],
        )

    async def declarations(
        self, names: Collection[str], job_types: Collection[str] = ()
    ) -> list[DeclarationRow]:
        found = await self._query("declarations", encode(sorted(names)), encode(sorted(job_types)))
        return [
            DeclarationRow(
                name=values[0],
                fingerprint=values[1],
                job_type=values[2],
                declared_by=values[3],
                declared_at=self.codec.decode_moment(values[4]),
            )
            for values in found
        ]
