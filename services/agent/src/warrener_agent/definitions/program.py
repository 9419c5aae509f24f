"""A program as a job type: its declaration, and its call with the arguments of a job. Pure.

There is no shell: each argument of the program stays one argument, whatever it contains.
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

from pydantic import BaseModel, ConfigDict, PydanticUserError, TypeAdapter, create_model
from pydantic_core import to_json

from warrener_agent.definitions.job import ErrorRules, JobDefinition, JobOptions, define_job
from warrener_agent.definitions.signature import Signature
from warrener_agent.failures import JobDefinitionError
from warrener_contracts.fields import parse_duration
from warrener_contracts.policy import Guarantee

_PLAIN = (str, int, float, Decimal, PurePath, UUID, date, time, datetime)
_MANY = (list, tuple, set, frozenset)
_NUMBERS = (int, float, Decimal)
_END_OF_OPTIONS = "--"

OutputFormat = Literal["json", "text", "nothing"]


class BadArgument(ValueError):
    """A value cannot be inserted into the program's template."""


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
    brace. If `{name}` is a whole argument of the program, a list becomes as many arguments, and None none. A
    text that begins with `-` could be taken for an option, so it is refused, unless it follows other text in
    the same argument (`--file={path}`) or an argument `--`.

    - `cwd`: folder in which the program runs (default: an empty one of its own, deleted afterwards).
    - `stdin`: "json" (default) passes the job's arguments on the standard input, "nothing" passes none.
    - `ok`: exit codes of success (default 0).
    - `no_retry_on`: exit codes that no further attempt can mend.
    - `retry_after`: exit codes after which the job is retried, and the delay of each.

    Any other exit code, and any signal, is an ordinary failure.

    Raises ValueError for a template that cannot be filled.
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
        if any(_names(self.argv[0])):
            raise ValueError(f"expected one program, got a template: {self.argv[0]}")
        for delay in self.retry_after.values():
            parse_duration(delay)

    @property
    def names(self) -> set[str]:
        """The arguments that the templates name. Raises ValueError for a bad template."""
        templates = [*self.argv, *self.variables.values(), *([self.cwd] if self.cwd else [])]
        return {name for template in templates for name in _names(template)}

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
        """Return the seconds after which a job with this exit code is retried, if it has a delay of its
        own."""
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
    """Return the name, if the template is nothing else."""
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


class NoArguments(BaseModel):
    """The arguments of a program that has none."""

    model_config = ConfigDict(extra="forbid")


def define_command(
    name: str,
    program: Program,
    *,
    arguments: type[BaseModel] | None,
    result: Any,
    description: str,
    queue: str,
    guarantee: Guarantee | str,
    options: JobOptions,
) -> JobDefinition:
    """Define the job type `name`, run by `program`. Raises JobDefinitionError that says what is wrong."""
    signature = _signature(name, arguments or NoArguments, result)
    _check(name, program, signature)
    output: OutputFormat = "text" if result is str else "nothing" if result is None else "json"

    def make_call(**given: Any) -> ProgramCall:
        return program.make_call(given, output)

    make_call.__doc__ = description
    return define_job(
        name,
        make_call,
        queue=queue,
        guarantee=guarantee,
        executor=None,
        errors=ErrorRules(),
        options=options,
        signature=signature,
    )


def _signature(name: str, arguments: type[BaseModel], result: Any) -> Signature:
    if (
        arguments.model_config.get("extra") != "forbid"
    ):  # as with a function: what it does not know is refused
        arguments = create_model(arguments.__name__, __base__=arguments, __cls_kwargs__={"extra": "forbid"})
    names: Mapping[str, str] = {field: field for field in arguments.model_fields}
    try:
        signature = Signature(None, names, arguments, TypeAdapter(result))
        _ = signature.arguments_schema, signature.result_schema
    except (PydanticUserError, NameError) as error:
        raise JobDefinitionError(
            f"{name}: expected types that can be read from JSON and written to it, got: {error}"
        ) from error
    return signature


def _check(name: str, program: Program, signature: Signature) -> None:
    try:
        unknown = program.names - set(signature.names)
    except ValueError as error:
        raise JobDefinitionError(f"{name}: {error}") from error
    if unknown:
        raise JobDefinitionError(
            f"{name}: expected {', '.join(sorted(signature.names)) or 'no argument'} in braces, got "
            f"{', '.join(sorted(unknown))}: declare it in `arguments`"
        )
