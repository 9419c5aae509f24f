"""The escalation file: read it, check it, report its first mistake, and read it again when it changes."""

import asyncio
import os
import signal
import tomllib
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from warrener_contracts.json_safety import is_object
from warrener_contracts.templates import TemplateNames, find_mistakes
from warrener_runtime.lifecycle import ManagedComponent
from warrener_runtime.logs import get_logger
from warrener_runtime.secret_files import SecretFileError, read_secret
from warrener_runtime.secrets import mask, mask_value
from warrener_runtime.settings import SettingsError
from warrener_supervisor.escalation.alert_sinks import key_of as signing_key
from warrener_supervisor.escalation.facts import ALERT_NAMES, COMPENSATION_NAMES
from warrener_supervisor.escalation.policy import (
    DAILY,
    LOG,
    AlertStep,
    CompensateStep,
    DigestStep,
    Escalation,
    EscalationPolicy,
    SinkConfig,
)
from warrener_supervisor.escalation.policy_versions import action_of

_ENVIRONMENT = "env:"
_KINDS = ("retry", "park", "alert", "digest", "compensate", "close")
_PAGE = "see docs/howto/escalate.md"
_CORRECT = "correct the value"
_LONG = 100  # characters of a wrong value


class PolicyFileError(SettingsError):
    """The escalation file cannot be used: key of the first mistake, problem, and remedy."""

    def __init__(self, key: str, problem: str, remedy: str, path: Path | None = None) -> None:
        self.key = key
        self.problem = problem
        self.remedy = remedy
        where = "".join(f"{place}: " for place in (path, key) if place)
        super().__init__([f"{where}{problem}; {remedy}"])


def check_file(text: str, environment: Mapping[str, str]) -> Escalation:
    """Return the contents of a file, with the values of its variables. Raises PolicyFileError."""
    try:
        file = Escalation.model_validate(tomllib.loads(text))
    except tomllib.TOMLDecodeError as error:
        raise PolicyFileError("", f"expected TOML, got a mistake: {error}", "correct the syntax") from None
    except ValidationError as error:
        raise _structure_error(dict(error.errors(include_url=False)[0])) from None
    sinks = {name: _filled_sink(name, sink, environment) for name, sink in file.sinks.items()}
    for name, digest in file.digests.items():
        _check_known(f"digest.{name}.to", "sinks", {LOG, *sinks}, digest.to)
    _check_policies(file)
    return file.model_copy(update={"sinks": sinks})


def _structure_error(detail: Mapping[str, Any]) -> PolicyFileError:
    """Describe a key that is unknown or missing, or has a value of the wrong type."""
    key = _key_of(detail["loc"])
    came: object = detail["input"]
    match detail["type"]:
        case "extra_forbidden":
            remedy = f"{_PAGE} for those there are, or delete the key"
            return PolicyFileError(key, "expected no such key, got it", remedy)
        case "missing":
            return PolicyFileError(key, "expected a value, got none", "add the key")
        case "union_tag_invalid" | "union_tag_not_found":
            got = came.get("do") if is_object(came) else came
            problem = f"expected one of {', '.join(_KINDS)}, got {got!r}"
            return PolicyFileError(f"{key}.do", problem, f"{_PAGE} for the steps")
        case "too_short":
            return PolicyFileError(key, "expected at least one element, got none", "add one")
        case "time_parsing":
            return PolicyFileError(key, f"expected a time of day such as 22:00, got {came!r}", _CORRECT)
        case _:
            pass
    problem = str(detail["msg"]).removeprefix("Value error, ").removeprefix("Input should be ")
    if not problem.startswith("expected "):  # our own validators write whole sentences
        shown = mask(repr(mask_value(key.rpartition(".")[2], came)))[:_LONG]
        problem = f"expected {problem[0].lower()}{problem[1:]}, got {shown}"
    return PolicyFileError(key, problem, _CORRECT)


def _key_of(path: tuple[str | int, ...]) -> str:
    """Return the place in the file: `policy[0].steps[2].to`."""
    written = ""
    for before, part in zip((None, *path), path, strict=False):
        if isinstance(part, int):
            written += f"[{part}]"
        elif not (isinstance(before, int) and part in _KINDS):  # pydantic names the kind of a step, too
            written += f".{part}" if written else part
    return written


def _filled_sink(name: str, sink: SinkConfig, environment: Mapping[str, str]) -> SinkConfig:
    """Check a sink; return it with the values of its variables."""
    values: dict[str, str | None] = {}
    for key in ("apprise", "webhook", "secret"):
        value: str | None = getattr(sink, key)
        if value is not None and value.startswith(_ENVIRONMENT):
            variable = value.removeprefix(_ENVIRONMENT)
            try:
                value = read_secret(variable, environment)
            except SecretFileError as error:
                raise PolicyFileError(f"sink.{name}.{key}", str(error), _CORRECT) from None
            if not value:
                problem = f"expected the variable {variable} to be set, got none"
                raise PolicyFileError(f"sink.{name}.{key}", problem, "set it")
        values[key] = value
    url = values["webhook"]
    if url is not None and not url.lower().startswith(("http://", "https://")):
        problem = f"expected a URL like https://host/path, got {mask(url)!r}"
        raise PolicyFileError(f"sink.{name}.webhook", problem, "correct the URL")
    try:
        signing_key(values["secret"] or "")
    except ValueError as error:
        raise PolicyFileError(f"sink.{name}.secret", str(error), "copy the secret again") from None
    return sink.model_copy(update=values)


def _check_policies(file: Escalation) -> None:
    names: set[str] = set()
    catch_all = ""
    for number, policy in enumerate(file.policies):
        key = f"policy[{number}]"
        if policy.name in names:
            problem = f"expected a name of its own, got {policy.name!r} again"
            raise PolicyFileError(f"{key}.name", problem, "rename one of them")
        names.add(policy.name)
        if catch_all:
            raise PolicyFileError(
                key,
                f"expected a policy that can match, got one behind {catch_all}, which matches every incident",
                f"put it before {catch_all}",
            )
        if all("*" in patterns for patterns in (policy.kinds, policy.job_types, policy.errors)):
            catch_all = key
        if policy.quiet is not None:
            _check_known(f"{key}.quiet", "quiet hours", file.quiet, [policy.quiet])
        _check_steps(key, policy, file)


def _check_steps(policy_key: str, policy: EscalationPolicy, file: Escalation) -> None:
    done: set[str] = set()
    for number, step in enumerate(policy.steps):
        key, action = f"{policy_key}.steps[{number}]", action_of(step)
        if "close" in done:
            problem = f"expected no step behind close, got {step.do}"
            raise PolicyFileError(key, problem, "put it before close, or delete it")
        if action in done:  # it would request the same jobs
            problem = f"expected {action} once in a policy, got it again"
            raise PolicyFileError(key, problem, "delete one of them")
        done.add(action or step.do)
        match step:
            case AlertStep():
                _check_known(f"{key}.to", "sinks", {LOG, *file.sinks}, step.to)
                _check_template(f"{key}.title", step.title, ALERT_NAMES)
                _check_template(f"{key}.text", step.text, ALERT_NAMES)
            case DigestStep():
                _check_known(f"{key}.into", "digests", {DAILY, *file.digests}, [step.into])
            case CompensateStep():
                _check_template(f"{key}.arguments", step.arguments, COMPENSATION_NAMES)
            case _:
                pass


def _check_known(key: str, what: str, known: Collection[str], names: Collection[str]) -> None:
    for name in names:
        if name not in known:
            there = ", ".join(sorted(known)) or "(there are none)"
            problem = f"expected one of the {what} {there}, got {name!r}"
            raise PolicyFileError(key, problem, "declare it, or name another")


def _check_template(key: str, template: object, names: TemplateNames) -> None:
    for mistake in find_mistakes(template, names):
        problem, _, remedy = mistake.partition("; ")
        raise PolicyFileError(key, problem, remedy or "correct the template")


_log = get_logger("escalation")


class EscalationFile:
    """The current contents of the file.

    Raises PolicyFileError at once if it cannot be used; a later mistake is logged, and the contents before
    it stay.
    """

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._seen = self._written()
        self._escalation = read(path) if path else Escalation()

    def current(self) -> Escalation:
        """Return the contents, after reading the file again if it has changed."""
        if self._written() != self._seen:
            self.force_reload()
        return self._escalation

    def force_reload(self) -> None:
        """Read the file again, even if it seems unchanged."""
        if self._path is None:
            return
        self._seen = self._written()
        try:
            self._escalation = read(self._path)
        except PolicyFileError as error:
            _log.error(
                "The escalation file cannot be used; the policies read before stay in force.",
                action="escalation.bad_file",
                problems=list(error.problems),
            )
        else:
            _log.info(
                "The escalation file was read again.",
                action="escalation.reloaded",
                policies=[policy.name for policy in self._escalation.policies],
            )

    def _written(self) -> tuple[int, int] | None:
        try:
            found = self._path.stat() if self._path else None
        except OSError:
            return None
        return (found.st_mtime_ns, found.st_size) if found else None


class ReloadOnSignal(ManagedComponent):
    """Calls `then` at each SIGHUP, which no longer ends the process. In the main thread alone."""

    def __init__(self, then: Callable[[], None]) -> None:
        super().__init__("hang-up")
        self._then = then

    async def _on_start(self) -> None:
        asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, self._then)

    async def _on_stop(self) -> None:
        asyncio.get_running_loop().remove_signal_handler(signal.SIGHUP)


def read(path: Path) -> Escalation:
    """Read the file at `path`. Raises PolicyFileError."""
    try:
        return check_file(path.read_text(encoding="utf-8"), os.environ)
    except (OSError, UnicodeDecodeError) as error:
        problem = f"expected a file that can be read, got {str(path)!r} ({error})"
        raise PolicyFileError("WARRENER_SUPERVISOR_ESCALATION_FILE", problem, "correct the path") from error
    except PolicyFileError as error:
        raise PolicyFileError(error.key, error.problem, error.remedy, path) from None
