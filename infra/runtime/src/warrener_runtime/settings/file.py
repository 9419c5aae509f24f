"""The TOML file: `WARRENER_CONFIG`, or `warrener.toml` where the service was started, or none."""

import os
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast

from warrener_runtime.settings.errors import SettingsError

CONFIG_VARIABLE = "WARRENER_CONFIG"
DEFAULT_FILE = "warrener.toml"


@dataclass(frozen=True)
class FileValues:
    """The values that concern one service, and the key under which each was written."""

    path: Path | None = None
    values: Mapping[str, object] = field(default_factory=dict[str, object])
    keys: Mapping[str, str] = field(default_factory=dict[str, str])


def read_file(section: str | None) -> FileValues:
    """The top-level keys and those of `section`, which win. Raises SettingsError if it cannot be read."""
    path = _path()
    if path is None:
        return FileValues()
    document = _parse(path)
    values = {key: value for key, value in document.items() if not isinstance(value, dict)}
    keys = {key: key for key in values}
    table = document.get(section) if section else None
    if isinstance(table, dict):
        named = cast("dict[str, object]", table)
        values |= named
        keys |= {key: f"{section}.{key}" for key in named}
    return FileValues(path, values, keys)


def _path() -> Path | None:
    named = os.environ.get(CONFIG_VARIABLE)
    if named:
        return Path(named)
    default = Path(DEFAULT_FILE)
    return default if default.is_file() else None


def _parse(path: Path) -> dict[str, object]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        problem = (
            f"{CONFIG_VARIABLE}: expected a file that can be read, got {str(path)!r} ({error}); name another"
        )
        raise SettingsError([problem]) from error
    except tomllib.TOMLDecodeError as error:
        raise SettingsError([f"{path}: expected TOML, got a mistake: {error}; put it right"]) from error
