"""A file of schedules (`schedules.toml`): read, and every mistake in it named with its place."""

import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ValidationError

from warrener.errors import CommandError
from warrener.scheduling.toml_lines import TomlLines
from warrener_contracts.events import SchedulePutData
from warrener_contracts.events.schedules import CODE_OWNER
from warrener_contracts.json_safety import is_array, is_object
from warrener_contracts.schedule_rules import SHORT_RULE_FIELDS, expand_short_rule

TABLE = "schedule"
_TOP = ("owner", "defaults", TABLE)
_OF_THE_FILE = frozenset({"owner", "reply_to", "rule"})
_KEYS = (SchedulePutData.model_fields.keys() | SHORT_RULE_FIELDS | {"rule"}) - (_OF_THE_FILE - {"rule"})
_DEFAULTS = ("timezone", "queue", "policy", "choices")


@dataclass(frozen=True, slots=True)
class SchedulesFile:
    """What a file of schedules says."""

    owner: str | None
    schedules: tuple[SchedulePutData, ...]
    lines: tuple[int, ...]  # where each of them begins


class FileError(CommandError):
    """Something in the file is not as it must be; says where."""

    def __init__(self, path: Path, line: int | None, where: str, problem: str) -> None:
        place = f"{path}:{line}" if line else str(path)
        super().__init__(f"{place}: {f'{where}: ' if where else ''}{problem}")


def read_file(path: Path) -> SchedulesFile:
    """What the file says. Raises FileError for the first mistake."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise CommandError(f"expected a file of schedules at {path}, got: {error}") from error
    return parse(text, path)


def parse(text: str, path: Path) -> SchedulesFile:
    """The same of a text that was read from `path`."""
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise FileError(path, None, "", f"expected TOML, got: {error}") from error
    return _Reader(path, document, TomlLines(text, TABLE)).read()


class _Reader:
    """Takes one file apart; knows where it is."""

    def __init__(self, path: Path, document: Mapping[str, Any], lines: TomlLines) -> None:
        self._path, self._document, self._lines = path, document, lines

    def read(self) -> SchedulesFile:
        for key in self._document:
            if key not in _TOP:
                raise self._error(None, key, f"expected one of {', '.join(_TOP)}, got {key!r}")
        owner = self._owner()
        defaults = self._defaults()
        schedules = list[SchedulePutData]()
        for place, table in enumerate(self._tables()):
            definition = self._schedule(place, table, defaults, owner)
            if any(definition.name == other.name for other in schedules):
                raise self._error(place, "name", f"expected each name once, got {definition.name!r} again")
            schedules.append(definition)
        places = tuple(self._lines.find_line(place) or 0 for place in range(len(schedules)))
        return SchedulesFile(owner, tuple(schedules), places)

    def _owner(self) -> str | None:
        owner = self._document.get("owner")
        if owner == CODE_OWNER:
            raise self._error(
                None, "owner", f"expected another label than {CODE_OWNER!r}: it means agents' code"
            )
        return None if owner is None else str(owner)

    def _defaults(self) -> Mapping[str, Any]:
        defaults = self._document.get("defaults", {})
        if not is_object(defaults):
            raise self._error(None, "defaults", f"expected a table, got {defaults!r}")
        for key in defaults:
            if key not in _DEFAULTS:
                raise self._error(None, key, f"defaults: expected one of {', '.join(_DEFAULTS)}, got {key!r}")
        return defaults

    def _tables(self) -> list[Mapping[str, Any]]:
        tables = self._document.get(TABLE, [])
        if not is_array(tables) or not all(is_object(one) for one in tables):
            raise self._error(None, TABLE, f"expected tables headed [[{TABLE}]], got {tables!r:.60}")
        return list(tables)

    def _schedule(
        self, place: int, table: Mapping[str, Any], defaults: Mapping[str, Any], owner: str | None
    ) -> SchedulePutData:
        for key in table:
            if key not in _KEYS:
                raise self._error(place, key, f"expected one of {', '.join(sorted(_KEYS))}, got {key!r}")
        entries = {word: value for word, value in table.items() if word not in SHORT_RULE_FIELDS}
        try:
            fields = {**_merged(defaults, entries), "rule": expand_short_rule(table), "owner": owner}
        except ValueError as error:
            raise self._error(place, "", str(error)) from None
        try:
            definition = SchedulePutData.model_validate(fields)
        except ValidationError as error:
            found = error.errors(include_url=False)[0]
            keys = [str(part) for part in found["loc"]]
            problem = found["msg"].removeprefix("Value error, ")
            came = (
                "" if ", got " in problem or found["type"] == "missing" else f", got {found['input']!r:.80}"
            )
            raise self._error(place, ".".join(keys), f"{problem}{came}") from None
        if unknown := next(_unknown(fields, definition), None):
            where, known = unknown
            raise self._error(place, where, f"expected one of {', '.join(sorted(known))}")
        return definition

    def _error(self, place: int | None, key: str, problem: str) -> FileError:
        table = "" if place is None else f"[[{TABLE}]] {place + 1} {self._name(place)}".strip()
        where = f"{table}: {key}" if table and key else table or key
        return FileError(self._path, self._lines.find_line(place, key), where, problem)

    def _name(self, place: int) -> str:
        name = self._tables()[place].get("name")
        return f"({name})" if isinstance(name, str) else ""


def _merged(defaults: Mapping[str, Any], entries: Mapping[str, Any]) -> dict[str, Any]:
    """What is said for all, with what is said for this one on top; tables are put together key by key."""
    merged = {**defaults, **entries}
    for key in ("policy", "choices"):
        first, second = defaults.get(key), entries.get(key)
        if is_object(first) and is_object(second):
            merged[key] = {**first, **second}
    return merged


def _unknown(entries: Mapping[str, Any], read: BaseModel, path: str = "") -> Iterator[tuple[str, list[str]]]:
    """Keys that nobody reads: on the wire they are passed over, in a file they are mistakes."""
    known = type(read).model_fields
    for key, value in entries.items():
        if key not in known:
            yield f"{path}{key}", list(known)
            continue
        yield from _unknown_below(value, getattr(read, key), f"{path}{key}.")


def _unknown_below(value: Any, read: Any, path: str) -> Iterator[tuple[str, list[str]]]:
    if is_object(value) and isinstance(read, BaseModel):
        yield from _unknown(value, read, path)
    elif is_array(value) and is_array(read):
        for one, element in zip(value, read, strict=False):
            yield from _unknown_below(one, element, path)
