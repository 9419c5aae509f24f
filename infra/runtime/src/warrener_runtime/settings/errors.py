"""What is wrong with the settings, said so that it can be put right at once."""

from collections.abc import Callable, Sequence
from typing import Any

from pydantic import ValidationError

from warrener_runtime.settings.secrets import mask, mask_value


class SettingsError(Exception):
    """The settings cannot be used. Each problem names the variable, what was expected and what came."""

    def __init__(self, problems: Sequence[str], hints: Sequence[str] = ()) -> None:
        self.problems = tuple(problems)
        self.hints = tuple(hints)
        super().__init__("\n".join([*problems, *(f"hint: {hint}" for hint in hints)]))


def problems_in(error: ValidationError, origin: Callable[[str], str]) -> list[str]:
    """One sentence for each wrong value; `origin` says where the value of a field was taken from."""
    return [_problem(detail, origin) for detail in error.errors(include_url=False)]


def _problem(detail: Any, origin: Callable[[str], str]) -> str:
    path = [str(part) for part in detail["loc"]]
    field = path[0] if path else "settings"
    where = ".".join([origin(field), *path[1:]])
    if detail["type"] == "missing":
        return f"{where}: expected a value, got none; set it"
    came = mask_value(field, detail["input"])
    return f"{where}: expected {_expected(detail)}, got {came!r}"


def _expected(detail: Any) -> str:
    if "ctx" in detail and isinstance(detail["ctx"].get("error"), ValueError):
        return mask(str(detail["ctx"]["error"]))  # our own validators say what they expect
    message: str = detail["msg"]
    for beginning in ("Input should be ", "Value error, "):
        message = message.removeprefix(beginning)
    return message.split(", unable to")[0]
