"""Any program as a job type: how it is called with the arguments of a job. Pure.

There is no shell: each argument of the program stays one argument, whatever stands in it.
"""

import string
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from pathlib import PurePath
from typing import Any, Literal, cast
from uuid import UUID

from pydantic_core import to_json

from warrener_contracts.durations import parse_duration

_PLAIN = (str, int, float, Decimal, PurePath, UUID, date, time, datetime)
_MANY = (list, tuple, set, frozenset)
_NUMBERS = (int, float, Decimal)
_END_OF_OPTIONS = "--"

OutputFormat = Literal["json", "text", "nothing"]


class BadArgument(ValueError):
    """A value cannot be put where the program's template wants it."""


@dataclass(frozen=True, slots=True)
class ProgramCall:
    """One call of a program."""

    argv: tuple[str, ...]
    variables: Mapping[str, str]
    cwd: str | None
    stdin: bytes
    program: "Program"
    output: OutputFormat


@dataclass(frozen=True)
class Program:
    """A program, and the template of its arguments.

    In `argv`, `variables` and `cwd`, `{name}` stands for the argument `name` of the job, and `{{` for a
    brace. Where `{name}` is a whole argument of the program, a list becomes as many arguments, and None
    none. A text that begins with `-` could be taken for an option, so it is refused, unless something
    stands before it in the same argument (`--file={path}`) or `--` stands before.

    `cwd` is the folder in which it runs; if not said, an empty one of its own that is gone afterwards. The
    job's arguments are given to it as JSON on its standard input, unless `stdin` is "nothing". Exit codes in
    `ok` mean success, those in `no_retry` that no further attempt can mend it, those in `retry_after` that
    it shall be tried again after so long; all others, and any signal, that the attempt has failed.

    Raises ValueError for a template that cannot be filled.
    """

    argv: Sequence[str]
    variables: Mapping[str, str] = field(default_factory=dict[str, str])
    cwd: str | None = None
    stdin: Literal["json", "nothing"] = "json"
    ok: Sequence[int] = (0,)
    no_retry: Sequence[int] = ()
    retry_after: Mapping[int, timedelta | float | str] = field(
        default_factory=dict[int, timedelta | float | str]
    )

    def __post_init__(self) -> None:
        if isinstance(self.argv, str) or not self.argv:
            raise ValueError(f"expected the program and its arguments as a list, got {self.argv!r}")
        if any(_names(self.argv[0])):
            raise ValueError(f"expected one program, got a template: {self.argv[0]}")
        for delay in self.retry_after.values():
            parse_duration(delay)

    @property
    def names(self) -> set[str]:
        """The arguments that the templates speak of. Raises ValueError for what is no template."""
        templates = [*self.argv, *self.variables.values(), *([self.cwd] if self.cwd else [])]
        return {name for template in templates for name in _names(template)}

    def make_call(self, arguments: Mapping[str, Any], output: OutputFormat) -> ProgramCall:
        """How it is called with these. Raises BadArgument."""
        return ProgramCall(
            argv=tuple(self._filled(arguments)),
            variables={name: _fill(value, arguments) for name, value in self.variables.items()},
            cwd=None if self.cwd is None else _fill(self.cwd, arguments),
            stdin=to_json(dict(arguments)) + b"\n" if self.stdin == "json" else b"",
            program=self,
            output=output,
        )

    def delay_after(self, code: int) -> float | None:
        """Seconds, where this exit code asks to be tried again later."""
        delay = self.retry_after.get(code)
        return None if delay is None else parse_duration(delay).total_seconds()

    def _filled(self, arguments: Mapping[str, Any]) -> Iterator[str]:
        may_be_option = True
        for template in self.argv:
            may_be_option = may_be_option and template != _END_OF_OPTIONS
            if (name := _alone(template)) is None:
                values, filled = [None], [_fill(template, arguments)]
                starts_with_value = template.startswith("{") and not template.startswith("{{")
            else:
                values = _spread(arguments[name])
                filled = [_text(name, value) for value in values]
                starts_with_value = True
            for value, text in zip(values, filled, strict=True):
                if may_be_option and starts_with_value and text.startswith("-") and not _is_number(value):
                    raise BadArgument(f"{text[:80]!r} would be taken for an option of {self.argv[0]}")
                yield text


def _names(template: str) -> Iterator[str]:
    try:
        parts = list(string.Formatter().parse(template))
    except ValueError as error:
        raise ValueError(
            f"expected braces in pairs, or twice for a plain one: {error}: {template[:200]!r}"
        ) from None
    for _, name, specification, conversion in parts:
        if name is not None and (not name.isidentifier() or specification or conversion):
            raise ValueError(
                "expected the name of an argument in braces, or braces twice for plain ones, got "
                f"{name!r} in {template[:200]!r}"
            )
        if name is not None:
            yield name


def _alone(template: str) -> str | None:
    """The name, where a template is nothing else."""
    parts = list(string.Formatter().parse(template))
    return parts[0][1] if len(parts) == 1 and not parts[0][0] else None


def _fill(template: str, arguments: Mapping[str, Any]) -> str:
    parts: list[str] = []
    for literal, name, _, _ in string.Formatter().parse(template):
        parts.append(literal)
        if name is not None:
            parts.append(_text(name, arguments[name]))
    return "".join(parts)


def _spread(value: Any) -> list[Any]:
    if value is None:
        return []
    return list(cast("Collection[Any]", value)) if isinstance(value, _MANY) else [value]


def _text(name: str, value: Any) -> str:
    value = value.value if isinstance(value, Enum) else value
    if isinstance(value, bool):
        return str(value).lower()
    if not isinstance(value, _PLAIN):
        raise BadArgument(f"{name}: expected a text, a number or a time, got {type(value).__name__}")
    text = value.isoformat() if isinstance(value, (date, time)) else str(value)
    if "\0" in text:
        raise BadArgument(f"{name}: expected a text without NUL characters")
    return text


def _is_number(value: Any) -> bool:
    return isinstance(value, _NUMBERS)
