"""Errors of the command: every one ends as a sentence, what to do, and an exit code, never as a traceback."""

import os
from collections.abc import Callable, Iterator
from enum import IntEnum
from functools import wraps
from socket import gaierror
from ssl import SSLError
from typing import NoReturn, ParamSpec

import typer

from warrener.render.screen import err
from warrener_client import ClientError
from warrener_devservers import ServerError
from warrener_runtime.bus import BusCredentialsRefused, BusError
from warrener_runtime.secrets import mask
from warrener_store import StoreError, StoreNotMigrated
from warrener_store.databases.address import StoreUrlError
from warrener_store.databases.failures import AGAIN, MIGRATE

P = ParamSpec("P")

_START_BROKER = "start one with `warrener up`, or name another with --broker or WARRENER_BROKER_URL"
_STORE_SETTING = "--store or WARRENER_STORE_URL"


class ExitCode(IntEnum):
    """Exit codes, documented in `docs/reference/command.md`."""

    OK = 0
    FAILED = 1
    USAGE = 2
    UNREACHABLE = 3  # the broker or the store does not answer, or refuses
    NOT_SUCCESSFUL = 4  # --wait: the job ended without a result
    INTERRUPTED = 130


class CommandError(Exception):
    """An error printed unchanged: a sentence `expected X, got Y`, and what to do."""

    def __init__(self, sentence: str, *, do: str | None = None, code: ExitCode = ExitCode.FAILED) -> None:
        self.sentence, self.do, self.code = sentence, do, code
        super().__init__(f"{sentence}; {do}" if do else sentence)


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
        except StoreError as error:
            failure = store_error(error)
            exit_with_error(failure.sentence, failure.do, failure.code)
        except BusError as error:
            exit_with_error(str(error), None, ExitCode.UNREACHABLE)
        except (ClientError, ServerError) as error:
            exit_with_error(str(error), None, ExitCode.FAILED)
        except KeyboardInterrupt:
            raise typer.Exit(ExitCode.INTERRUPTED) from None

    return wrapper


def exit_with_error(sentence: str, do: str | None, code: ExitCode) -> NoReturn:
    """Print the error without passwords, and end the command."""
    screen = err()
    screen.print("[bad]✗[/] ", end="")
    screen.print(mask(sentence), markup=False)
    if do:
        screen.print("  [soft]→[/] ", end="")
        screen.print(mask(do), markup=False)
    raise typer.Exit(code)


def credentials_error(error: BusCredentialsRefused) -> CommandError:
    """The broker refuses user, password or virtual host; the bus names which, and what to do."""
    sentence, _, do = mask(str(error)).rpartition("; ")
    return CommandError(sentence, do=do, code=ExitCode.UNREACHABLE)


def store_error(error: StoreError) -> CommandError:
    """Turn an error of the store into one of the command, which does not retry."""
    sentence = mask(str(error)).removesuffix(AGAIN).removesuffix(f"; {MIGRATE}")
    if isinstance(error, StoreUrlError):
        sentence, _, do = mask(str(error)).rpartition("; ")
        advice = do.replace("WARRENER_STORE_URL", _STORE_SETTING)
        return CommandError(sentence, do=advice, code=ExitCode.USAGE)
    if isinstance(error, StoreNotMigrated):
        return CommandError(sentence, do=MIGRATE, code=ExitCode.UNREACHABLE)
    return CommandError(sentence, do=_store_advice(error), code=ExitCode.UNREACHABLE)


def _store_advice(error: StoreError) -> str:
    state = next((state for cause in _causes(error) if (state := getattr(cause, "sqlstate", None))), "")
    match state[:2]:
        case "28":
            return f"check user and password in {_STORE_SETTING}"
        case "3D":
            return f"make the database (createdb), then run `warrener migrate`; or correct {_STORE_SETTING}"
        case "42":
            return "give the user the rights of the owner of the tables"
        case _:
            return f"start the database, or name another with {_STORE_SETTING}"


def _causes(error: BaseException) -> Iterator[BaseException]:
    """The error and its causes, the newest first."""
    cause: BaseException | None = error
    while cause is not None:
        yield cause
        cause = cause.__cause__


def os_error_text(error: OSError) -> str:
    """Such as `Connection refused`."""
    if isinstance(error, gaierror | SSLError):  # their errno is no errno of the system
        return error.strerror or str(error)
    return os.strerror(error.errno) if error.errno else str(error)
