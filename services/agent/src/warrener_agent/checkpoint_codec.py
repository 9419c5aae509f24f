"""The state that a handler saves, as JSON. Pure."""

from typing import Any

from pydantic_core import PydanticSerializationError, from_json, to_json

from warrener_contracts.events import MAX_CHECKPOINT
from warrener_contracts.json_safety import find_unsafe_value, may_be_unsafe


def encode_checkpoint(state: Any) -> str:
    """`state` as JSON. Raises ValueError that says what is wrong with it."""
    try:
        text = to_json(state)
    except (PydanticSerializationError, ValueError, TypeError) as error:
        raise ValueError(
            f"expected a checkpoint that can be written as JSON, got {type(state).__qualname__}: {error}"
        ) from error
    if len(text) > MAX_CHECKPOINT:
        raise ValueError(
            f"expected a checkpoint of at most {MAX_CHECKPOINT} bytes of JSON, got {len(text)}: "
            "keep the data elsewhere, and save where it is"
        )
    if may_be_unsafe(text) and (finding := find_unsafe_value(from_json(text))):
        raise ValueError(f"expected a checkpoint that everybody can keep, {finding}")
    return text.decode()
