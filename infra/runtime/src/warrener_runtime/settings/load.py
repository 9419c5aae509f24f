"""Read the settings of a service and say what is wrong with them."""

import os
from difflib import get_close_matches
from typing import Any, TypeVar, cast

from pydantic import ValidationError

from warrener_runtime.settings.errors import SettingsError, problems_in
from warrener_runtime.settings.file import CONFIG_VARIABLE, FileValues, read_file
from warrener_runtime.settings.service import PREFIX, ServiceSettings, values_of_file

S = TypeVar("S", bound=ServiceSettings)

_CLOSE = 0.85  # STORE_URL is 0.81 like BROKER_URL, and no slip of the pen; a letter too few is 0.94 or more


def load(kind: type[S], **overrides: object) -> S:
    """The settings of one service: overrides (None: not given), then variables, then the file, then defaults.

    Raises SettingsError, which names the flag, the variable or the file and key of every wrong value.
    """
    given = {name: value for name, value in overrides.items() if value is not None}
    if unknown := given.keys() - kind.model_fields.keys():
        raise TypeError(f"expected fields of {kind.__name__}, got {sorted(unknown)}")
    file = read_file(kind.section)
    hints = _hints(kind, file)
    token = values_of_file.set(dict(file.values))
    try:
        settings = kind(**cast("dict[str, Any]", given))  # pydantic judges the values
    except ValidationError as error:
        problems = problems_in(error, lambda field: _origin(field, given, file))
        raise SettingsError(problems, hints) from None  # the cause would print what is masked
    finally:
        values_of_file.reset(token)
    settings._hints = tuple(hints)  # noqa: SLF001 - the constructor would take it for a setting
    return settings


def _variable(field: str) -> str:
    return f"{PREFIX}{field.upper()}"


def _origin(field: str, given: dict[str, object], file: FileValues) -> str:
    if field in given:
        return f"--{field.replace('_', '-')}"
    if os.environ.get(_variable(field)) or field not in file.values:
        return _variable(field)
    return f"{file.path}: {file.keys[field]}"


def _known_fields() -> set[str]:
    """The fields of every kind of service in this process: one's setting is not another's mistake."""
    kinds, fields = [ServiceSettings], set[str]()
    while kinds:
        kind = kinds.pop()
        fields |= kind.model_fields.keys()
        kinds += kind.__subclasses__()
    return fields


def _hints(kind: type[ServiceSettings], file: FileValues) -> list[str]:
    known = _known_fields()
    variables = {_variable(field) for field in known} | {CONFIG_VARIABLE}
    mine = [_variable(field) for field in kind.model_fields] + [CONFIG_VARIABLE]
    unknown = sorted(name for name in os.environ if name.startswith(PREFIX) and name not in variables)
    hints = [_hint(name, mine, "it is read by nobody") for name in unknown]
    unread = f"it stands in {file.path} and is read by nobody"
    hints += [_hint(key, list(kind.model_fields), unread) for key in sorted(file.values.keys() - known)]
    return [hint for hint in hints if hint]


def _hint(name: str, candidates: list[str], complaint: str) -> str | None:
    close = get_close_matches(name, candidates, n=1, cutoff=_CLOSE)
    return f"{name} looks like a slip of the pen for {close[0]}; {complaint}" if close else None
