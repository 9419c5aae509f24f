"""The SQL statements of handlers: their named parameters, and the ones that are refused."""

import re
from functools import lru_cache
from typing import Final, NamedTuple

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
_CONTROL: Final = re.compile(
    r"\s*(?:BEGIN|START\s+TRANSACTION|COMMIT|END|ABORT|ROLLBACK(?!\s+(?:TRANSACTION\s+|WORK\s+)?TO\b)|PREPARE\s+TRANSACTION)\b",
    re.IGNORECASE,
)


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
