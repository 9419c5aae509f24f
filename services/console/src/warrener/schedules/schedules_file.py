"""Schedules in TOML: files of schedules (`schedules.toml`), read and written, and the file of one rule.

Every mistake is reported with its file, line, table and key. A written file is read back as the same.
"""

import json
import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ValidationError

from warrener.errors import CommandError
from warrener.schedules.rules import expand_rule
from warrener_contracts.events import JsonObject, SchedulePutData
from warrener_contracts.events.schedule_definition import CODE_OWNER
from warrener_contracts.json_safety import is_array, is_object
from warrener_contracts.schedule_rules import SHORT_RULE_FIELDS

_TABLE = "schedule"
_TOP_KEYS = ("owner", "defaults", _TABLE)
_KEYS = (SchedulePutData.model_fields.keys() | SHORT_RULE_FIELDS) - {"owner", "reply_to"}
_RULE_FILE_KEYS = _KEYS - {"name", "job_type", "arguments"}
_DEFAULTS = ("timezone", "queue", "policy", "choices")


@dataclass(frozen=True, slots=True)
class SchedulesFile:
    """The content of a file of schedules; `lines` has the first line of each schedule, 0 if unknown."""

    owner: str | None
    schedules: tuple[SchedulePutData, ...]
    lines: tuple[int, ...]


class FileError(CommandError):
    """A mistake in a file, with its place."""

    def __init__(self, path: Path, line: int | None, where: str, problem: str) -> None:
        place = f"{path}:{line}" if line else str(path)
        super().__init__(f"{place}: {f'{where}: ' if where else ''}{problem}")


class DefinitionError(ValueError):
    """A field of a schedule that cannot be used."""

    def __init__(self, key: str, problem: str) -> None:
        super().__init__(f"{key}: {problem}")
        self.key, self.problem = key, problem


# -- reading -----------------------------------------------------------------------------------------------


def read_file(path: Path) -> SchedulesFile:
    """Read a file of schedules. Raises FileError for its first mistake."""
    return parse(_read_text(path, "a file of schedules"), path)


def parse(text: str, path: Path) -> SchedulesFile:
    """Parse the text of a file of schedules; `path` is for errors."""
    return _Reader(path, _load_toml(text, path), TomlLines(text, _TABLE)).read()


def read_rule_file(path: Path) -> dict[str, Any]:
    """Read the fields of one schedule but for name, job type and arguments. Raises CommandError."""
    text = _read_text(path, "a TOML file with a rule")
    table = _load_toml(text, path)
    _Reader(path, table, TomlLines(text, _TABLE)).require_keys(table, sorted(_RULE_FILE_KEYS))
    return table


def make_definition(fields: Mapping[str, Any]) -> SchedulePutData:
    """Build the schedule of these fields. Raises DefinitionError, also for a key that nothing reads."""
    try:
        definition = SchedulePutData.model_validate(fields)
    except ValidationError as error:
        found = error.errors(include_url=False)[0]
        problem = found["msg"].removeprefix("Value error, ")
        came = "" if ", got " in problem or found["type"] == "missing" else f", got {found['input']!r:.80}"
        raise DefinitionError(".".join(map(str, found["loc"])), f"{problem}{came}") from None
    if unknown := next(_unknown_keys(fields, definition), None):
        key, known = unknown
        raise DefinitionError(key, f"expected one of {', '.join(sorted(known))}")
    return definition


def _unknown_keys(
    entries: Mapping[str, Any], read: BaseModel, path: str = ""
) -> Iterator[tuple[str, list[str]]]:
    """Keys that the model ignores: events tolerate them, files do not."""
    known = type(read).model_fields
    for key, value in entries.items():
        if key not in known:
            yield f"{path}{key}", list(known)
            continue
        yield from _unknown_below(value, getattr(read, key), f"{path}{key}.")


def _unknown_below(value: Any, read: Any, path: str) -> Iterator[tuple[str, list[str]]]:
    if is_object(value) and isinstance(read, BaseModel):
        yield from _unknown_keys(value, read, path)
    elif is_array(value) and is_array(read):
        for one, element in zip(value, read, strict=False):
            yield from _unknown_below(one, element, path)


def _read_text(path: Path, expected: str) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise CommandError(f"expected {expected} at {path}, got: {error}") from error


def _load_toml(text: str, path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise FileError(path, None, "", f"expected TOML, got: {error}") from error


class _Reader:
    """Reads one parsed file; `lines` gives the places of its mistakes."""

    def __init__(self, path: Path, document: Mapping[str, Any], lines: "TomlLines") -> None:
        self._path, self._document, self._lines = path, document, lines

    def read(self) -> SchedulesFile:
        self.require_keys(self._document, _TOP_KEYS)
        owner, defaults = self._document.get("owner"), self._document.get("defaults", {})
        if owner == CODE_OWNER:
            another = f"expected another label than {CODE_OWNER!r}: it means agents' code"
            raise self._error(None, "owner", another)
        owner = None if owner is None else str(owner)
        if not is_object(defaults):
            raise self._error(None, "defaults", f"expected a table, got {defaults!r}")
        self.require_keys(defaults, _DEFAULTS, within="defaults: ")
        schedules = list[SchedulePutData]()
        for place, table in enumerate(self._tables()):
            definition = self._schedule(place, table, defaults, owner)
            if any(definition.name == other.name for other in schedules):
                raise self._error(place, "name", f"expected each name once, got {definition.name!r} again")
            schedules.append(definition)
        places = tuple(self._lines.find_line(place) or 0 for place in range(len(schedules)))
        return SchedulesFile(owner, tuple(schedules), places)

    def require_keys(
        self, table: Iterable[str], known: Sequence[str], place: int | None = None, within: str = ""
    ) -> None:
        """Raise FileError for the first key that nothing reads."""
        for key in table:
            if key not in known:
                raise self._error(place, key, f"{within}expected one of {', '.join(known)}, got {key!r}")

    def _tables(self) -> list[Mapping[str, Any]]:
        tables = self._document.get(_TABLE, [])
        if not is_array(tables) or not all(is_object(one) for one in tables):
            raise self._error(None, _TABLE, f"expected tables headed [[{_TABLE}]], got {tables!r:.60}")
        return list(tables)

    def _schedule(
        self, place: int, table: Mapping[str, Any], defaults: Mapping[str, Any], owner: str | None
    ) -> SchedulePutData:
        self.require_keys(table, sorted(_KEYS), place)
        entries = {key: value for key, value in table.items() if key not in SHORT_RULE_FIELDS}
        merged: dict[str, Any] = {**defaults, **entries}
        for key in ("policy", "choices"):  # the two are merged key by key
            first, second = defaults.get(key), entries.get(key)
            if is_object(first) and is_object(second):
                merged[key] = {**first, **second}
        try:
            return make_definition({**merged, "rule": expand_rule(table), "owner": owner})
        except DefinitionError as error:
            raise self._error(place, error.key, error.problem) from None
        except ValueError as error:  # of the rule
            raise self._error(place, "", str(error)) from None

    def _error(self, place: int | None, key: str, problem: str) -> FileError:
        table = "" if place is None else f"[[{_TABLE}]] {place + 1}"
        if place is not None and isinstance(name := self._tables()[place].get("name"), str):
            table += f" ({name})"
        where = f"{table}: {key}" if table and key else table or key
        return FileError(self._path, self._lines.find_line(place, key), where, problem)


class TomlLines:
    """Line numbers of a TOML text with tables `[[name]]`, found by their looks: tomllib reports none."""

    def __init__(self, text: str, name: str) -> None:
        self._lines = text.splitlines()
        header = re.compile(rf"\s*\[\[\s*{re.escape(name)}\s*\]\]")
        self._begins = [number for number, line in enumerate(self._lines) if header.match(line)]

    def find_line(self, place: int | None, key: str = "") -> int | None:
        """The line, from 1, of a key in the `place`-th table, else of the table; None if unknown.

        Without a place the key is searched above the tables. Of a key such as `choices.grace` the last part
        is tried first.
        """
        borders = [*self._begins, len(self._lines)]
        begin, end = (0, borders[0]) if place is None else (0, len(self._lines))
        if place is not None and place < len(self._begins):
            begin, end = borders[place], borders[place + 1]
        for part in reversed(key.split(".")) if key else ():
            word = re.compile(rf"""(^|[\s{{,.\["']){re.escape(part)}["']?\s*([=.\]]|$)""")
            for number in range(begin, end):
                if word.search(self._lines[number]):
                    return number + 1
        return None if place is None or not self._begins else begin + 1


# -- writing -----------------------------------------------------------------------------------------------

_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")
_SHORT_FORMS = {"cron": ("expression", "cron"), "interval": ("every", "every")}


def render_schedules(
    schedules: Iterable[SchedulePutData], owner: str | None = None, heading: str = ""
) -> str:
    """Render a whole file. Raises ValueError for a null argument: TOML has none."""
    parts = [*(f"# {line}".rstrip() for line in heading.splitlines())]
    if owner is not None:
        parts.append(f"owner = {_value(owner)}")
    blocks = ["\n".join(parts)] if parts else []
    blocks += [_block(definition) for definition in schedules]
    return "\n\n".join(blocks) + "\n"


def find_unwritable(definition: SchedulePutData) -> str | None:
    """Return why the schedule cannot be written, or None."""
    try:
        render_schedules([definition])
    except ValueError as error:
        return str(error)
    return None


def _block(definition: SchedulePutData) -> str:
    dumped = definition.model_dump(
        mode="json", exclude_none=True, exclude_defaults=True, exclude={"rule", "owner", "reply_to"}
    )
    rule = definition.rule.model_dump(mode="json", exclude_none=True)
    fields = {"name": definition.name, "job_type": definition.job_type, **_rule_fields(rule)}
    fields |= {key: value for key, value in dumped.items() if key not in fields}
    if definition.arguments:
        fields["arguments"] = definition.arguments  # unchanged: a dump would convert values
    return "\n".join([f"[[{_TABLE}]]", *(f"{_key(key)} = {_value(value)}" for key, value in fields.items())])


def _rule_fields(rule: JsonObject) -> JsonObject:
    """The rule by its short form, if it has one."""
    kind = rule["kind"]
    if kind in _SHORT_FORMS:
        long, short = _SHORT_FORMS[kind]
        return {short: rule[long], **{key: value for key, value in rule.items() if key not in ("kind", long)}}
    if kind == "once":
        return {key: value for key, value in rule.items() if key != "kind"}
    return {"rule": rule}


def _key(key: str) -> str:
    return key if _BARE_KEY.fullmatch(key) else _text(key)


def _value(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return repr(value)
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, str):
        return _text(value)
    if is_object(value):
        inner = ", ".join(f"{_key(key)} = {_value(one)}" for key, one in value.items())
        return f"{{ {inner} }}" if inner else "{}"
    if is_array(value):
        return f"[{', '.join(map(_value, value))}]"
    raise ValueError(f"expected what TOML can hold, got {value!r}")


def _text(text: str) -> str:
    """A TOML basic string: a JSON string but for DEL, which JSON does not escape."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
