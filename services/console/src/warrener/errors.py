"""Errors of the command: every one ends as a sentence, what to do, and an exit code, never as a traceback."""

import os
import sys
from collections.abc import Callable, Iterator
from enum import IntEnum
from functools import wraps
from socket import gaierror
from typing import TYPE_CHECKING, NoReturn, ParamSpec

import typer

from warrener.render.screen import err
from warrener_runtime.running_up import DEFAULT_FOLDER
from warrener_runtime.secrets import mask

if TYPE_CHECKING:
    from warrener_runtime.bus import BusCredentialsRefused
    from warrener_store import StoreError

P = ParamSpec("P")

_START_BROKER = "start one with `warrener up`, or name another with --broker or WARRENER_BROKER_URL"
_START_SERVICE = "check with `warrener doctor` that scheduler and supervisor run; --no-wait returns at once"
_STORE_SETTING = "--store or WARRENER_STORE_URL"


class ExitCode(IntEnum):
    """Exit codes, documented in `docs/reference/command.md`."""

    OK = 0
    FAILED = 1
    USAGE = 2
    UNREACHABLE = 3  # the broker, the store or a service does not answer, or refuses
    NOT_SUCCESSFUL = 4  # the job ended without a result, or a service refused the command
    INTERRUPTED = 130
    CLOSED_PIPE = 141  # as a shell reports it


class CommandError(Exception):
    """An error printed unchanged: a sentence `expected X, got Y`, and what to do."""

    def __init__(self, sentence: str, *, do: str | None = None, code: ExitCode = ExitCode.FAILED) -> None:
        self.sentence, self.do, self.code = sentence, do, code
        super().__init__(f"{sentence}; {do}" if do else sentence)


class UsageError(CommandError):
    """The caller has made a mistake. The API answers with status 400."""

    def __init__(self, sentence: str, *, do: str | None = None) -> None:
        super().__init__(sentence, do=do, code=ExitCode.USAGE)


class NothingFound(CommandError):
    """Nothing has this name. The API answers with status 404."""


class BrokerUnreachable(CommandError):
    """The broker does not answer."""

    def __init__(self, url: str, cause: str, do: str = _START_BROKER) -> None:
        self.url, self.cause = url, cause
        super().__init__(f"expected a broker at {mask(url)}, got: {cause}", do=do, code=ExitCode.UNREACHABLE)


def report_errors(command: Callable[P, None]) -> Callable[P, None]:
    """Wrap a command: print its error as a sentence and exit with the error's code."""

    @wraps(command)
    def wrapper(*args: P.args, **kwargs: P.kwargs) -> None:
        try:
            command(*args, **kwargs)
        except CommandError as error:
            exit_with_error(error.sentence, error.do, error.code)
        except KeyboardInterrupt:
            raise typer.Exit(ExitCode.INTERRUPTED) from None
        except BrokenPipeError:
            _forget_closed_pipes()
            raise typer.Exit(ExitCode.CLOSED_PIPE) from None
        except Exception as error:
            failures = find_failures(error)
            for failure in failures[:-1]:
                print_error(failure.sentence, failure.do)
            if not failures:
                raise
            exit_with_error(failures[-1].sentence, failures[-1].do, failures[-1].code)

    return wrapper


def _forget_closed_pipes() -> None:
    """Send further output nowhere: at its end the interpreter would try, and report, the same again."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except BrokenPipeError:
            os.dup2(nowhere, stream.fileno())


def find_failures(error: Exception) -> list[CommandError]:
    """Explain an error of the client, the broker, the store or a private server; empty: it is a bug."""
    # The package of an error is imported already; the others are large.
    packages = {kind.__module__.partition(".")[0] for kind in type(error).__mro__}
    if "warrener_store" in packages:
        from warrener_store import StoreError  # noqa: PLC0415 - see above

        return [store_error(error)] if isinstance(error, StoreError) else []
    if "warrener_client" in packages:
        return _client_failures(error)
    if "warrener_runtime" in packages:
        from warrener_runtime.bus import BusError  # noqa: PLC0415 - see above
        from warrener_runtime.settings import SettingsError  # noqa: PLC0415

        if isinstance(error, SettingsError):
            return [UsageError(str(error))]
        return [CommandError(str(error), code=ExitCode.UNREACHABLE)] if isinstance(error, BusError) else []
    if "warrener_devservers" in packages:
        from warrener_devservers import ServerError  # noqa: PLC0415 - see above

        return [CommandError(str(error))] if isinstance(error, ServerError) else []
    return []


def _client_failures(error: Exception) -> list[CommandError]:
    from warrener_client import ClientError, CommandRefused, CommandTimeout  # noqa: PLC0415 - as above

    match error:
        case CommandRefused():
            return [CommandError(detail, code=ExitCode.NOT_SUCCESSFUL) for detail in error.details]
        case CommandTimeout():
            return [CommandError(str(error), do=_START_SERVICE, code=ExitCode.UNREACHABLE)]
        case ClientError():
            return [CommandError(str(error))]
        case _:
            return []


def exit_with_error(sentence: str, do: str | None, code: ExitCode) -> NoReturn:
    """Print the error without passwords, and end the command."""
    print_error(sentence, do)
    raise typer.Exit(code)


def print_error(sentence: str, do: str | None) -> None:
    """Print the error without passwords."""
    screen = err()
    screen.print("[error]✗[/] ", end="")
    screen.print(mask(sentence), markup=False)
    if do:
        screen.print("  [soft]→[/] ", end="")
        screen.print(mask(do), markup=False)


def credentials_error(error: "BusCredentialsRefused") -> CommandError:
    """The broker refuses user, password or virtual host; the bus names which, and what to do."""
    sentence, _, do = mask(str(error)).rpartition("; ")
    return CommandError(sentence, do=do, code=ExitCode.UNREACHABLE)


def store_error(error: "StoreError") -> CommandError:
    """Turn an error of the store into one of the command, which does not retry."""
    from warrener_store import StoreNotMigrated  # noqa: PLC0415 - as above
    from warrener_store.databases.address import StoreUrlError  # noqa: PLC0415
    from warrener_store.databases.failures import AGAIN  # noqa: PLC0415

    if isinstance(error, StoreUrlError | StoreNotMigrated):
        sentence, _, do = mask(str(error)).rpartition("; ")
        if isinstance(error, StoreNotMigrated):
            if f"sqlite:///{DEFAULT_FOLDER}/state.db, got no such file" in sentence:
                sentence = "expected a store, got none: none is configured, and this folder has no data of "
                sentence += "`warrener up`"
                do = f"go to the folder of `warrener up`, or name a store with {_STORE_SETTING}"
            return CommandError(sentence, do=do, code=ExitCode.UNREACHABLE)
        advice = do.replace("WARRENER_STORE_URL", _STORE_SETTING)
        return UsageError(sentence, do=advice)
    sentence = mask(str(error)).removesuffix(AGAIN)
    return CommandError(sentence, do=_store_advice(error), code=ExitCode.UNREACHABLE)


def _store_advice(error: "StoreError") -> str:
    state = next((state for cause in _causes(error) if (state := getattr(cause, "sqlstate", None))), "")
    match state[:2]:
        case "28":
            return f"check user and password in {_STORE_SETTING}"
        case "3D":
            return f"make the database (createdb), then run `warrener migrate`; or correct {_STORE_SETTING}"
        case "42":
            grants = "the rights that `warrener migrate --grants console --user NAME` prints"
            return f"give the user {grants}; to migrate, those of the owner of the tables"
        case _:
            return f"start the database, or name another with {_STORE_SETTING}"


def _causes(error: BaseException) -> Iterator[BaseException]:
    cause: BaseException | None = error
    while cause is not None:
        yield cause
        cause = cause.__cause__


def os_error_text(error: OSError) -> str:
    """Such as `Connection refused`."""
    from ssl import SSLError  # noqa: PLC0415 - OpenSSL is large, and only errors need it here

    if isinstance(error, gaierror | SSLError):  # their errno is no errno of the system
        return error.strerror or str(error)
    return os.strerror(error.errno) if error.errno else str(error)
