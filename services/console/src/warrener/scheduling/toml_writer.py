"""Schedules as the text of a file of schedules. Pure; what is read back is the same."""

import json
import re
from collections.abc import Iterable
from datetime import datetime
from typing import Any

from warrener_contracts.events import JsonObject, SchedulePutData
from warrener_contracts.json_safety import is_array, is_object

_BARE = re.compile(r"[A-Za-z0-9_-]+")
_SHORT = {"cron": ("expression", "cron"), "interval": ("every", "every")}


def render_schedules(
    schedules: Iterable[SchedulePutData], owner: str | None = None, heading: str = ""
) -> str:
    """The whole file. Raises ValueError for an argument that TOML cannot hold: it has no null."""
    parts = [*(f"# {line}".rstrip() for line in heading.splitlines())]
    if owner is not None:
        parts.append(f"owner = {_value(owner)}")
    blocks = ["\n".join(parts)] if parts else []
    blocks += [_block(definition) for definition in schedules]
    return "\n\n".join(blocks) + "\n"


def _block(definition: SchedulePutData) -> str:
    dumped = definition.model_dump(
        mode="json", exclude_none=True, exclude_defaults=True, exclude={"rule", "owner", "reply_to"}
    )
    rule = definition.rule.model_dump(mode="json", exclude_none=True)
    fields = {"name": definition.name, "job_type": definition.job_type, **_rule(rule)}
    fields |= {key: value for key, value in dumped.items() if key not in fields}
    if definition.arguments:
        fields["arguments"] = definition.arguments  # as they were said, not as they are dumped
    return "\n".join(["[[schedule]]", *(f"{_key(key)} = {_value(value)}" for key, value in fields.items())])


def _rule(rule: JsonObject) -> JsonObject:
    """By a short form where there is one."""
    kind = rule["kind"]
    if kind in _SHORT:
        long, short = _SHORT[kind]
        return {short: rule[long], **{key: value for key, value in rule.items() if key not in ("kind", long)}}
    if kind == "once":
        return {key: value for key, value in rule.items() if key != "kind"}
    return {"rule": rule}


def _key(key: str) -> str:
    return key if _BARE.fullmatch(key) else _text(key)


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
    """TOML's basic strings are JSON's but for one character, which JSON leaves as it is."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
