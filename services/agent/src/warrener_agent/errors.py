"""Which errors a job type tries again, as its handler's author writes it: classes, and names of such."""

from dataclasses import dataclass
from typing import cast

from warrener_agent.failures import JobDefinitionError

Errors = tuple[type[BaseException] | str, ...]
"""Exception classes (and what derives from them), or their names, in which `*` is any run of characters."""


@dataclass(frozen=True, slots=True)
class ErrorRules:
    """What is tried again and what is not, as declared."""

    retry_on: Errors = ()
    no_retry: Errors = ()

    def to_policy(self, job_type: str) -> dict[str, tuple[str, ...]]:
        """As the policy on the wire has it: by name. Raises JobDefinitionError for what is no error."""
        rules: dict[str, object] = {"retry_on": self.retry_on, "no_retry": self.no_retry}
        return {key: _names(job_type, key, errors) for key, errors in rules.items()}


def error_type_name(kind: type[BaseException]) -> str:
    """The name of an error's class on the wire."""
    return kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"


def _names(job_type: str, key: str, errors: object) -> tuple[str, ...]:
    if not isinstance(errors, tuple):
        raise JobDefinitionError(
            f"{job_type}: expected {key} as a tuple of exception classes or names, got {errors!r}"
        )
    return tuple(_name(job_type, key, error) for error in cast("tuple[object, ...]", errors))


def _name(job_type: str, key: str, error: object) -> str:
    if isinstance(error, str):
        return error
    if isinstance(error, type) and issubclass(error, BaseException):
        return "*" if error is BaseException else error_type_name(error)
    raise JobDefinitionError(
        f'{job_type}: expected exception classes or names such as "requests.*" in {key}, got {error!r}'
    )
