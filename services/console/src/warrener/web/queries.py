"""Queries of pages: their parameters, positions in lists, and the fields of forms that send them."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from warrener.web.page import BadQuery

Q = TypeVar("Q", bound=BaseModel)


def read_query(model: type[Q], query: Mapping[str, str]) -> Q:
    """Read the parameters of a page that the model knows; empty ones have their defaults. Raises BadQuery."""
    given = {name: query[name] for name in model.model_fields if query.get(name)}
    try:
        return model.model_validate(given)
    except ValidationError as error:
        wrong = error.errors(include_url=False)[0]
        field = ".".join(map(str, wrong["loc"]))
        raise BadQuery(f"{field}: {wrong['msg']}, got {wrong['input']!r:.80}") from None


def form_field(
    name: str,
    label: str,
    value: str = "",
    *,
    kind: str = "text",
    options: Sequence[str | tuple[str, str]] = (),
    suggestions: Sequence[str] = (),
    hint: str = "",
    required: bool = False,
    rows: int = 4,
) -> dict[str, Any]:
    """Make a field for the macros `ui.field`, `ui.filters` and `ui.action`."""
    return {
        "name": name,
        "label": label,
        "value": value,
        "type": kind,
        "options": options,
        "list": suggestions,
        "hint": hint,
        "required": required,
        "rows": rows,
    }


def write_position(moment: datetime, key: str) -> str:
    """Write the position of the last row of a page."""
    return f"{moment.isoformat()} {key}"


def read_position(text: str) -> tuple[datetime, str] | None:
    """Read a position; empty: None, the beginning of the list. Raises BadQuery."""
    if not text:
        return None
    moment, _, key = text.partition(" ")
    return parse_moment(moment, "after", "the `next` of a page"), key


def parse_moment(text: str, name: str, wanted: str = "a time such as 2026-11-23T09:00:00+00:00") -> datetime:
    """Parse a moment with its offset. Raises BadQuery."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        moment = None
    if moment is None or moment.tzinfo is None:
        raise BadQuery(f"{name}: expected {wanted}, got {text!r:.80}")
    return moment
