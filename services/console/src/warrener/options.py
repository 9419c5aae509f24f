"""Options that several commands share, and the values that their texts stand for."""

import getpass
import json
import socket
import sys
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from warrener.errors import CommandError, UsageError

if TYPE_CHECKING:  # a command imports what its options need: pydantic is large, and help needs none of it
    from warrener_client import JobSpec
    from warrener_contracts.fields import JsonObject
    from warrener_contracts.policy import PolicyOverrides

DEFAULT_REASON = "requested"


def _parse_duration(text: str) -> timedelta:
    from warrener_contracts.fields import parse_duration  # noqa: PLC0415 - see above

    return parse_duration(text)


def parse_seconds(text: str | float) -> float:
    """A duration of the command line, in seconds: 90, 90s, 2m, PT2M."""
    if not isinstance(text, str):  # a default
        return text
    try:
        return _parse_duration(text).total_seconds()
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None


def shared(about: str, metavar: str | None = None, *, names: str = "", **settings: Any) -> Any:
    """Describe an option that commands share, for its type: its help, the word for its value, and its names,
    if they are not that of the parameter."""
    return typer.Option(*names.split(), help=about, metavar=metavar, **settings)


def option(
    about: str, metavar: str | None = None, *, names: str = "", default: Any = None, **more: Any
) -> Any:
    """Describe an option of one command, as `shared` does, in place of its parameter's default."""
    return typer.Option(default, *names.split(), help=about, metavar=metavar, **more)


def flag(names: str, about: str) -> Any:
    """Describe an option without a value."""
    return option(about, names=names, default=False)


def argument(about: str, metavar: str, *, default: Any = ..., **more: Any) -> Any:
    """Describe an argument of one command, in place of its parameter's default."""
    return typer.Argument(default, metavar=metavar, help=about, show_default=False, **more)


Json = Annotated[bool, shared("JSON on stdout, and nothing else there.", names="--json")]
Broker = Annotated[
    str | None,
    shared("Broker (default: that of `warrener up` in this folder, else WARRENER_BROKER_URL).", "URL"),
]
Management = Annotated[
    str | None,
    shared(
        "Management API of the broker, which lists bindings (default: WARRENER_MANAGEMENT_URL, else "
        "port 15672 beside the broker).",
        "URL",
    ),
]
Store = Annotated[
    str | None,
    shared("State store (default: that of `warrener up` in this folder, else WARRENER_STORE_URL).", "URL"),
]
JobId = Annotated[
    str,
    typer.Argument(
        metavar="ID", help="Id of the job, a part of it, or id of its request.", show_default=False
    ),
]
Arguments = Annotated[
    list[str] | None,
    typer.Argument(metavar="KEY=VALUE", help="Arguments: one JSON object, or key=value words."),
]
Modules = Annotated[
    list[str] | None,
    typer.Argument(metavar="MODULE[:NAME]", help="Modules with an Agent, importable from this folder."),
]
ScheduleNames = Annotated[list[str] | None, typer.Argument(metavar="NAME", help="Schedules (default all).")]
Limit = Annotated[
    int, shared("Maximum number of rows, the newest first.", names="--limit -n", min=1, max=10_000)
]
By = Annotated[str | None, shared("Author of the command (default user@host).", "NAME")]
NoWait = Annotated[
    bool, shared("Return once the broker has the command; a service carries it out later.", names="--no-wait")
]
DEFAULT_REPLY_TIMEOUT = 10.0
ReplyTimeout = Annotated[
    float,
    shared(
        "Time to wait for the service's reply (default 10s); it carries the command out later too.",
        "SPAN",
        parser=parse_seconds,
        show_default=False,
    ),
]


# -- spans, people, confirmations --------------------------------------------------------------------------


def parse_time(value: Any) -> Any:
    """Read a moment, or a time before now such as 2h; empty: None. Raises ValueError."""
    if not isinstance(value, str):
        return value
    try:
        return datetime.fromisoformat(value).astimezone(UTC) if value else None
    except ValueError:
        pass
    try:
        return datetime.now(UTC) - _parse_duration(value)
    except ValueError:
        raise ValueError(f"expected a time such as 90s, 2h or P1D, got {value!r:.60}") from None


def current_user() -> str:
    """`user@host` of this terminal."""
    try:
        return f"{getpass.getuser()}@{socket.gethostname()}"
    except (OSError, KeyError):  # a container may have no name for its user
        return f"somebody@{socket.gethostname()}"


def confirm(question: str, consequence: str, look: str, *, yes: bool) -> None:
    """Prompt at a terminal; elsewhere require --yes. Aborts the command on a no."""
    if yes:
        return
    if not sys.stdin.isatty():
        raise UsageError(
            f"expected --yes without a terminal to confirm at, got none: {consequence}",
            do=f"look with {look}, then add --yes",
        )
    typer.confirm(question, abort=True, err=True)


@contextmanager
def report_invalid_fields() -> Generator[None]:
    """Turn an event's ValidationError into a CommandError that names the field."""
    from pydantic import ValidationError  # noqa: PLC0415 - see above

    try:
        yield
    except ValidationError as error:
        raise UsageError(field_problem(error.errors()[0])) from error


def field_problem(found: Mapping[str, Any], *within: str) -> str:
    """Say which field of a model is wrong, from an error of pydantic: "expected X, got Y"."""
    where = ".".join([*within, *(str(part) for part in found["loc"])])
    message = str(found["msg"]).removeprefix("Value error, ")
    got = "" if ", got " in message else f", got {found['input']!r:.60}"
    return f"{where}: {message}{got}" if where else f"{message}{got}"


# -- arguments of jobs -------------------------------------------------------------------------------------


def parse_arguments(words: Sequence[str]) -> "JsonObject":
    """Parse one JSON object, or `key=value` words whose values are JSON or else text."""
    if len(words) == 1 and words[0].lstrip().startswith("{"):
        return _arguments_object(words[0], "the arguments")
    return dict(_pair(word) for word in words)


def read_object(value: Any) -> Any:
    """Read the field of a body that is a JSON object: also its text, or `key=value` words. Raises
    ValueError."""
    if isinstance(value, str):
        value = [value] if value.strip() else []
    if not isinstance(value, list):
        return value
    words = cast("list[object]", value)
    if not all(isinstance(one, str) for one in words):
        raise ValueError("expected an object, or key=value words, got a list of others")
    try:
        return parse_arguments(cast("list[str]", words))
    except CommandError as error:
        raise ValueError(error.sentence) from None


def parse_request_lines(lines: Iterable[str], template: "JobSpec") -> Iterator["JobSpec"]:
    """Make one job request per line, each a JSON object of arguments. The template's id prefixes each id."""
    for number, line in enumerate(lines, start=1):
        if line.strip():
            line_id = f"{template.id}-{number}" if template.id else None
            yield replace(template, arguments=_arguments_object(line, f"line {number}"), id=line_id)


def _arguments_object(text: str, what: str) -> "JsonObject":
    example = """write {"key": "value"}, or key=value words"""
    return _json_object(text.strip(), f"expected {what} as a JSON object", example)


def _pair(word: str) -> tuple[str, Any]:
    key, equals, value = word.partition("=")
    if not equals or not key:
        raise UsageError(
            f"expected key=value or one JSON object, got {word!r}",
            do="""write path=a.csv rows=3, or '{"path": "a.csv", "rows": 3}'""",
        )
    return key, json_or_text(value)


def json_or_text(text: str) -> Any:
    """The value of JSON text; any other text stands for itself."""
    try:
        return json.loads(text)
    except ValueError:
        return text


def _json_object(text: str, expected: str, do: str) -> dict[str, Any]:
    try:
        found: object = json.loads(text)
    except ValueError as error:
        raise UsageError(f"{expected}, got {text[:60]!r}: {error}", do=do) from None
    if not isinstance(found, dict):
        raise UsageError(f"{expected}, got {text[:60]!r}", do=do)
    return cast("dict[str, Any]", found)


# -- policies ----------------------------------------------------------------------------------------------

_POLICY_EXAMPLE = """write --policy '{"max_attempts": 3, "backoff": {"delays": ["1s", "1m"]}}'"""


def parse_policy_options(
    text: str | None, *, delays: str | None = None, **flags: int | str | Sequence[str] | None
) -> "PolicyOverrides | None":
    """Merge --policy (JSON) with the flags, which are fields of it and win. None without any. Raises
    CommandError by field."""
    chosen: dict[str, Any] = (
        {} if text is None else _json_object(text, "expected --policy as a JSON object", _POLICY_EXAMPLE)
    )
    chosen |= {name: value for name, value in flags.items() if value not in (None, [], ())}
    if delays is not None:
        chosen["backoff"] = {"delays": [delay.strip() for delay in delays.split(",")]}
    if not chosen:
        return None
    from pydantic import ValidationError  # noqa: PLC0415 - see above

    from warrener_contracts.policy import PolicyOverrides, find_unknown_field  # noqa: PLC0415 - as above

    if wrong := find_unknown_field(chosen):
        raise UsageError(wrong, do=_POLICY_EXAMPLE)
    try:
        return PolicyOverrides.model_validate(chosen)
    except ValidationError as error:
        problems = "; ".join(field_problem(one, "policy") for one in error.errors(include_url=False))
        raise UsageError(problems, do=_POLICY_EXAMPLE) from None
