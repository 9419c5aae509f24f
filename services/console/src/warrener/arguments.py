"""What a person writes on the command line, as asks. Pure but for reading the lines."""

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any, cast

from warrener.errors import CommandError, ExitCode
from warrener_client import JobSpec
from warrener_contracts.events import JsonObject


def parse_arguments(words: Sequence[str]) -> JsonObject:
    """One JSON object, or `key=value` words; a value that is JSON is taken as such, any other as text."""
    if len(words) == 1 and words[0].lstrip().startswith("{"):
        return _object(words[0], "the arguments")
    return dict(_pair(word) for word in words)


def parse_request_lines(lines: Iterable[str], template: JobSpec) -> Iterator[JobSpec]:
    """One ask per line, each a JSON object of arguments; the template's id, if it has one, begins each
    line's."""
    for number, line in enumerate(lines, start=1):
        if line.strip():
            line_id = f"{template.id}-{number}" if template.id else None
            yield replace(template, arguments=_object(line, f"line {number}"), id=line_id)


def _object(text: str, what: str) -> JsonObject:
    try:
        found: object = json.loads(text)
    except ValueError as error:
        raise CommandError(
            f"expected {what} as a JSON object, got {text.strip()[:60]!r}: {error}",
            do="""write {"key": "value"}, or key=value words""",
            code=ExitCode.USAGE,
        ) from None
    if not isinstance(found, dict):
        raise CommandError(
            f"expected {what} as a JSON object, got {text.strip()[:60]!r}", code=ExitCode.USAGE
        )
    return cast("JsonObject", found)


def _pair(word: str) -> tuple[str, Any]:
    key, equals, value = word.partition("=")
    if not equals or not key:
        raise CommandError(
            f"expected key=value or one JSON object, got {word!r}",
            do="""write path=a.csv rows=3, or '{"path": "a.csv", "rows": 3}'""",
            code=ExitCode.USAGE,
        )
    try:
        return key, json.loads(value)
    except ValueError:
        return key, value
