"""Arguments from elsewhere as they stand: two braces begin no place that a scheduler would fill. Pure."""

from collections.abc import Mapping
from typing import Any, cast

from warrener_contracts.json_safety import is_array


def escape_placeholders(value: Any) -> Any:
    """The JSON value whose texts the scheduler renders to what they are here: `{{` is written as `{{{{`."""
    if isinstance(value, str):
        return value.replace("{{", "{{{{")
    if isinstance(value, Mapping):
        return {key: escape_placeholders(one) for key, one in cast("Mapping[str, Any]", value).items()}
    return [escape_placeholders(one) for one in value] if is_array(value) else value
