"""A program as a job type: its declaration, and its call with the arguments of a job. Pure.

There is no shell: each argument of the program stays one argument, whatever it contains.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from inspect import isclass
from pathlib import PurePath
from typing import Any, Literal, cast, get_args
from uuid import UUID

from pydantic import BaseModel, ConfigDict, TypeAdapter, create_model
from pydantic_core import to_json

from warrener_agent.definitions.signature import Handler, Signature, refuse_unreadable_types
from warrener_agent.failures import JobDefinitionError
from warrener_contracts import templates
from warrener_contracts.fields import parse_duration

_PLAIN = (str, int, float, Decimal, PurePath, UUID, date, time, datetime)
_MANY = (list, tuple, set, frozenset)
_NUMBERS = (int, float, Decimal)
_END_OF_OPTIONS = "--"

OutputFormat = Literal["json", "text", "nothing"]


class BadArgument(ValueError):
    """A value cannot be inserted into the program's template."""


@dataclass(frozen=True, slots=True)
class ProgramCall:
    argv: tuple[str, ...]
    variables: Mapping[str, str]
    cwd: str | None
    stdin: bytes
    program: "Program"
    output: OutputFormat


@dataclass(frozen=True)
class Program:
    """A program, and the template of its arguments.

    `argv`, `variables` and `cwd` are templates: `{{ name }}` stands for the argument `name` of the job. If it
    is a whole argument of the program, a list becomes as many arguments, and None none. A text that begins
    with `-` could be taken for an option, so it is refused, unless it follows other text in the same argument
    (`--file={{ path }}`) or an argument `--`.

    - `cwd`: folder in which the program runs (default: an empty one of its own, deleted afterwards).
    - `stdin`: "json" (default) passes the job's arguments on the standard input, "nothing" passes none.
    - `ok`: exit codes of success (default 0).
    - `no_retry_on`: exit codes that no further attempt can mend.
    - `retry_after`: exit codes after which the job is retried, and the delay of each.

    Any other exit code, and any signal, is an ordinary failure.

    Raises ValueError for one that names no program. The names in the templates are checked when it becomes a
    job type.
    """

    argv: Sequence[str]
    variables: Mapping[str, str] = field(default_factory=dict[str, str])
    cwd: str | None = None
    stdin: Literal["json", "nothing"] = "json"
    ok: Sequence[int] = (0,)
    no_retry_on: Sequence[int] = ()
    retry_after: Mapping[int, timedelta | float | str] = field(
        default_factory=dict[int, timedelta | float | str]
    )

    def __post_init__(self) -> None:
        if isinstance(self.argv, str) or not self.argv:
            raise ValueError(f"expected the program and its arguments as a list, got {self.argv!r}")
        if any(templates.placeholders_in(self.argv[0])):
            raise ValueError(f"expected one program, got a template: {self.argv[0]}")
        for delay in self.retry_after.values():
            parse_duration(delay)

    @property
    def templates(self) -> Iterator[str]:
        """All texts that may name arguments."""
        yield from self.argv
        yield from self.variables.values()
        if self.cwd is not None:
            yield self.cwd

    def make_call(self, arguments: Mapping[str, Any], output: OutputFormat) -> ProgramCall:
        """Return the call with these arguments. Raises BadArgument."""
        return ProgramCall(
            argv=tuple(self._filled(arguments)),
            variables={name: _fill(value, arguments) for name, value in self.variables.items()},
            cwd=None if self.cwd is None else _fill(self.cwd, arguments),
            stdin=to_json(dict(arguments)) + b"\n" if self.stdin == "json" else b"",
            program=self,
            output=output,
        )

    def delay_after(self, code: int) -> float | None:
        """Return the seconds of delay before a retry after this exit code, if it has its own."""
        delay = self.retry_after.get(code)
        return None if delay is None else parse_duration(delay).total_seconds()

    def _filled(self, arguments: Mapping[str, Any]) -> Iterator[str]:
        values: list[Any]
        may_be_option = True
        for template in self.argv:
            may_be_option = may_be_option and template != _END_OF_OPTIONS
            parts = templates.split_text(template)
            begins_with_value = bool(parts) and isinstance(parts[0], templates.Placeholder)
            if len(parts) == 1 and isinstance(parts[0], templates.Placeholder):
                name, values = parts[0].name, _spread(arguments[parts[0].name])
                filled = [_fill(template, {name: value}) for value in values]
            else:
                values, filled = [None], [_fill(template, arguments)]
            for value, text in zip(values, filled, strict=True):
                if (
                    may_be_option
                    and begins_with_value
                    and text.startswith("-")
                    and not isinstance(value, _NUMBERS)
                ):
                    raise BadArgument(f"{text[:80]!r} would be taken for an option of {self.argv[0]}")
                yield text


def _fill(template: str, arguments: Mapping[str, Any]) -> str:
    for placeholder in templates.placeholders_in(template):
        _check_value(placeholder.name, arguments[placeholder.name])
    try:
        text = templates.to_text(templates.render(template, arguments))
    except templates.TemplateError as error:
        raise BadArgument(str(error)) from None
    if "\0" in text:
        raise BadArgument(f"expected a text without NUL characters in {template[:80]!r}")
    return text


def _check_value(name: str, value: Any) -> None:
    """Refuse null, lists and objects within a text: a program would get an empty or unreadable argument."""
    value = value.value if isinstance(value, Enum) else value
    if not isinstance(value, _PLAIN):
        raise BadArgument(f"{name}: expected a text, a number or a time, got {type(value).__name__}")


def _spread(value: Any) -> list[Any]:
    if value is None:
        return []
    return list(cast("Collection[Any]", value)) if isinstance(value, _MANY) else [value]


class NoArguments(BaseModel):
    """The arguments of a program that has none."""

    model_config = ConfigDict(extra="forbid")


def program_handler(
    name: str, program: Program, arguments: type[BaseModel] | None, result: Any, description: str
) -> tuple[Handler, Signature]:
    """Return the handler that makes the calls of `program`, and its signature. Raises JobDefinitionError."""
    signature = _signature(name, arguments or NoArguments, result)
    _check(name, program, signature)
    output: OutputFormat = "text" if result is str else "nothing" if result is None else "json"

    def make_call(**given: Any) -> ProgramCall:
        return program.make_call(given, output)

    make_call.__doc__ = description
    return make_call, signature


def _signature(name: str, arguments: type[BaseModel], result: Any) -> Signature:
    if arguments.model_config.get("extra") != "forbid":  # as with a function, unknown ones are refused
        arguments = create_model(arguments.__name__, __base__=arguments, __cls_kwargs__={"extra": "forbid"})
    names: Mapping[str, str] = {field: field for field in arguments.model_fields}
    with refuse_unreadable_types(name):
        return Signature(None, names, arguments, TypeAdapter(result)).checked()


def _check(name: str, program: Program, signature: Signature) -> None:
    fields = signature.arguments.model_fields
    times = tuple(name for name, one in fields.items() if _may_be_time(one.annotation))
    known = templates.TemplateNames(tuple(signature.names), times=times)
    mistakes = [
        mistake for template in program.templates for mistake in templates.find_mistakes(template, known)
    ]
    if mistakes:
        raise JobDefinitionError(f"{name}: {'; '.join(mistakes)}; declare each name in `arguments`")


def _may_be_time(annotation: Any) -> bool:
    is_time = isclass(annotation) and issubclass(annotation, date | time)
    return is_time or any(map(_may_be_time, get_args(annotation)))
