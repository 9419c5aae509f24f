"""Unique jobs: the policy of a job type whose repeated requests make no second job, and the keys. Pure."""

import json
from collections.abc import Iterable
from datetime import timedelta
from enum import StrEnum
from hashlib import blake2b
from typing import Any

from pydantic import BaseModel, Field, ValidationError, model_validator

from warrener_contracts.fields import DurationLike, JsonObject, PositiveDuration, optional_field
from warrener_contracts.templates import TemplateNames, find_mistakes, render, to_text

_MAX_KEY = 200  # characters; of a longer one the end is a digest
_CANONICAL = json.JSONEncoder(sort_keys=True, separators=(",", ":"))


class UniqueUntil(StrEnum):
    """The event from which on a further request makes a job of its own."""

    DISPATCHED = "dispatched"  # its first dispatch
    FINISHED = "finished"


class OnRepeat(StrEnum):
    """The answer to a further request meanwhile."""

    REJECT = "reject"
    FIRST = "first"  # the first job stands for it
    REPLACE = "replace"  # its job replaces the first one, if that still waits; else it is rejected


class Debounce(BaseModel, frozen=True):
    """A job that starts once no request has come for `wait`, or `longest` after the first of them."""

    wait: PositiveDuration
    longest: PositiveDuration


def debounce(wait: DurationLike, *, longest: DurationLike) -> Debounce:
    """Have each repeat put the start off by `wait`, at most until `longest` after the first request."""
    return Debounce.model_validate({"wait": wait, "longest": longest})


class Unique(BaseModel, frozen=True):
    """Jobs of a type of which no two with the same key are there at once."""

    key: str = Field(
        default="",
        max_length=500,
        description="A template such as `{{ arguments.index }}`; empty: all arguments.",
    )
    until: UniqueUntil = UniqueUntil.FINISHED
    window: PositiveDuration | None = optional_field(
        "Time from its acceptance in which a job counts in any case, unless it was cancelled, has expired or "
        "is dead."
    )
    repeat: OnRepeat = OnRepeat.REJECT
    debounce: Debounce | None = optional_field("With `replace`: each job waits for this.")

    def __init__(
        self,
        key: str = "",
        *,
        until: str | None = None,
        window: DurationLike | None = None,
        repeat: "str | Debounce" = OnRepeat.REJECT,
        **more: Any,
    ) -> None:
        """Leave `until` out for `dispatched` with a repeat that replaces, and for `finished` otherwise."""
        if isinstance(repeat, Debounce):
            more, repeat = {**more, "debounce": repeat}, OnRepeat.REPLACE
        if until is None:
            until = UniqueUntil.DISPATCHED if repeat == OnRepeat.REPLACE else UniqueUntil.FINISHED
        try:
            super().__init__(key=key, until=until, window=window, repeat=repeat, **more)
        except ValidationError as error:
            raise ValueError(
                "expected a key of at most 500 characters, until dispatched or finished, a window such as "
                "1h, and a repeat among reject, first, replace and debounce(...), "
                f"got {key!r:.100}, {until!r}, {window!r} and {repeat!r}"
            ) from error

    @model_validator(mode="after")
    def _check_debounce(self) -> "Unique":
        if self.debounce is not None and self.repeat is not OnRepeat.REPLACE:
            raise ValueError(f"expected repeat replace with debounce, got {self.repeat}")
        return self

    @property
    def wait(self) -> timedelta:
        """Time that each job waits for further requests."""
        return timedelta(0) if self.debounce is None else self.debounce.wait


def find_unique_mistake(unique: Unique | None, parameters: Iterable[str]) -> str | None:
    """Explain the first mistake in the key; None without any. `parameters`: those of the job type that each
    request gives."""
    names = TemplateNames([f"arguments.{one}{rest}" for one in parameters for rest in ("", ".*")])
    mistake = next(find_mistakes(unique.key, names), None) if unique is not None else None
    return mistake and f"{mistake}; name parameters without a default"


def unique_key(job_type: str, unique: Unique, arguments: JsonObject) -> str:
    """Return the key of a job; keys of two types are never equal. Raises TemplateError if it names an
    argument that is not there."""
    if unique.key:
        text = to_text(render(unique.key, {"arguments": arguments}))
    else:
        text = _CANONICAL.encode(arguments)
    name = f"{job_type}/{text}"
    if len(name) <= _MAX_KEY and "#" not in name:
        return name
    digest = blake2b(name.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()
    return f"{name[: _MAX_KEY - len(digest) - 1]}#{digest}"
