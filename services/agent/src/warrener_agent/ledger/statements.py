"""Handlers' transactions: one statement at a time, with named parameters, and some that are refused."""

import asyncio
import re
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from functools import cache, lru_cache
from importlib.resources import files
from typing import Any, Final, NamedTuple

from warrener_agent.ledger.port import Completion, LedgerError

Parameters = Mapping[str, Any] | Sequence[Mapping[str, Any]]

_TOKENS: Final = re.compile(
    r"""
      '[^']*+(?:'|\Z)                         # a string; one without an end reaches to the statement's
    | "[^"]*+(?:"|\Z)                         # a quoted name
    | --[^\n]*                                # a comment
    | /\*.*?(?:\*/|\Z)
    | (?P<dollar>\$(?:[A-Za-z_]\w*)?\$).*?(?:(?P=dollar)|\Z)
    | ::                                      # a cast
    | (?<!\w):(?P<name>[A-Za-z_]\w*)
    """,
    re.VERBOSE | re.DOTALL,
)
_COMMENT: Final = re.compile(r"^--.*\n?", re.MULTILINE)
_BRACES: Final = re.compile(r"\{(\w+)\}")
_CONTROL: Final = re.compile(
    r"\s*(?:BEGIN|START\s+TRANSACTION|COMMIT|END|ABORT|ROLLBACK(?!\s+(?:TRANSACTION\s+|WORK\s+)?TO\b)|PREPARE\s+TRANSACTION)\b",
    re.IGNORECASE,
)


@cache
def ledger_statements(engine: str) -> Mapping[str, str]:
    """Read the ledger's own statements by name, from the file of the engine. Another one's name in braces
    stands for its text."""
    text = (files("warrener_agent.ledger") / f"{engine}.sql").read_text(encoding="utf-8")
    _, *parts = re.split(r"^-- name: (\w+)$", text, flags=re.MULTILINE)
    named = {name: _COMMENT.sub("", body).strip() for name, body in zip(parts[::2], parts[1::2], strict=True)}

    def expand(statement: str) -> str:
        return _BRACES.sub(lambda word: expand(named[word[1]]) if word[1] in named else word[0], statement)

    return {name: expand(statement) for name, statement in named.items()}


class NumberedStatement(NamedTuple):
    """A statement with `$1`, `$2` …, and the name of each."""

    text: str
    names: tuple[str, ...]


@lru_cache(maxsize=512)
def number_parameters(statement: str) -> NumberedStatement:
    """Number the named parameters (`:name`) of `statement` for PostgreSQL, and leave strings, quoted names,
    comments and casts alone."""
    places: dict[str, int] = {}

    def replace(token: re.Match[str]) -> str:
        name = token["name"]
        return token[0] if name is None else f"${places.setdefault(name, len(places) + 1)}"

    text = _TOKENS.sub(replace, statement)
    return NumberedStatement(text, tuple(places))


def reject_transaction_control(statement: str) -> None:
    """Raise ValueError for a statement that would end the agent's transaction."""
    if _CONTROL.match(statement):
        raise ValueError(
            f"expected a statement inside the transaction, got {statement.strip()[:40]!r}: it commits "
            "together with the result when the handler returns, and is rolled back when the handler raises"
        )


class SerialTransaction(ABC):
    """An `OpenTransaction` of either engine: its statements run one at a time."""

    def __init__(self) -> None:
        self._one_at_a_time = asyncio.Lock()
        self._over = False

    async def execute(self, statement: str, parameters: Parameters = ()) -> list[Mapping[str, Any]]:
        reject_transaction_control(statement)
        async with self._one_at_a_time:
            await self._begin()
            return await self._execute(statement, parameters)

    async def complete(self, completion: Completion) -> bool:
        async with self._one_at_a_time:
            await self._begin()
            # From here on the commit runs to its end, even if this task is cancelled.
            recording = asyncio.ensure_future(self._record(completion))
            try:
                return await asyncio.shield(recording)
            finally:
                if not recording.done():
                    await asyncio.wait({recording})
                await self.end()

    @abstractmethod
    async def end(self) -> None:
        """Roll back a transaction that was not completed. May be called twice."""

    @abstractmethod
    async def _begin(self) -> object:
        """Begin, unless a statement was run before. Raises LedgerError after the end."""

    @abstractmethod
    async def _execute(self, statement: str, parameters: Parameters) -> list[Mapping[str, Any]]: ...

    @abstractmethod
    async def _record(self, completion: Completion) -> bool:
        """Commit with the completion; False if the claim is lost."""

    def _require_open(self) -> None:
        if self._over:
            raise LedgerError("expected an open transaction, got one that is over: its attempt has ended")
