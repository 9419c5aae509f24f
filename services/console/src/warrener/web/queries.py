"""Queries of pages: their parameters, and moments in them."""

from collections.abc import Mapping
from datetime import datetime
from typing import TypeVar

from pydantic import BaseModel, ValidationError

from warrener.options import field_problem
from warrener.web.page import BadQuery

Q = TypeVar("Q", bound=BaseModel)


def read_query(model: type[Q], query: Mapping[str, str]) -> Q:
    """Read the parameters of a page that the model knows; empty ones have their defaults. Raises BadQuery."""
    given = {name: query[name] for name in model.model_fields if query.get(name)}
    try:
        return model.model_validate(given)
    except ValidationError as error:
        raise BadQuery(field_problem(error.errors()[0])) from None


def parse_moment(text: str, name: str, wanted: str = "a time such as 2026-11-23T09:00:00+00:00") -> datetime:
    """Parse a moment with its offset. Raises BadQuery."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        moment = None
    if moment is None or moment.tzinfo is None:
        raise BadQuery(f"{name}: expected {wanted}, got {text!r:.80}")
    return moment
