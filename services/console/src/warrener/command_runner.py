"""Runs commands: every error ends as a sentence and an exit code, never as a traceback."""

import asyncio
import logging
import os
from collections.abc import AsyncGenerator, Callable, Coroutine
from contextlib import asynccontextmanager
from functools import wraps
from socket import gaierror
from ssl import SSLError
from typing import Any, NoReturn, ParamSpec, TypeVar

import typer

from warrener.endpoints import ResolvedEndpoints
from warrener.errors import CommandError, ExitCode
from warrener.render.screen import err
from warrener.store_errors import command_error_from
from warrener_amqp.address import Address, parse_address
from warrener_client import Client, ClientError
from warrener_devservers import ServerError
from warrener_runtime import logs
from warrener_runtime.bus import BusCredentialsRefused, BusError
from warrener_runtime.secrets import mask
from warrener_store import Store, StoreError, open_store

T = TypeVar("T")
P = ParamSpec("P")

_START_ONE = "start one with `warrener up`, or say where it is with --broker or WARRENER_BROKER_URL"
CONNECT_TIMEOUT = 10.0  # seconds until a broker that does not answer is said to be unreachable


def run(body: Coroutine[Any, Any, T]) -> T:
    """The result of a command's body."""
    level = os.environ.get("WARRENER_LOG_LEVEL")
    logs.configure("warrener", level=level or "error", format="console")
    if level is None:  # every error is told as a sentence; the library's own record of it says nothing more
        logging.getLogger("aiormq").setLevel(logging.CRITICAL)
    return asyncio.run(body)


def report_errors(command: Callable[P, None]) -> Callable[P, None]:
    """The command, every error of which ends as a sentence and an exit code."""

    @wraps(command)
    def wrapper(*args: P.args, **kwargs: P.kwargs) -> None:
        try:
            command(*args, **kwargs)
        except CommandError as error:
            exit_with_error(error.sentence, error.do, error.code)
        except StoreError as error:
            failure = command_error_from(error)
            exit_with_error(failure.sentence, failure.do, failure.code)
        except BusError as error:
            exit_with_error(str(error), None, ExitCode.UNREACHABLE)
        except (ClientError, ServerError) as error:
            exit_with_error(str(error), None, ExitCode.FAILED)
        except KeyboardInterrupt:
            raise typer.Exit(ExitCode.INTERRUPTED) from None

    return wrapper


def exit_with_error(sentence: str, do: str | None, code: ExitCode) -> NoReturn:
    """Say it, and end."""
    screen = err()
    screen.print("[bad]✗[/] ", end="")
    screen.print(mask(sentence), markup=False)
    if do:
        screen.print("  [soft]→[/] ", end="")
        screen.print(mask(do), markup=False)
    raise typer.Exit(code)


@asynccontextmanager
async def connect_store(endpoints: ResolvedEndpoints) -> AsyncGenerator[Store]:
    """The store, open for questions."""
    store = open_store(endpoints.store_url)
    try:
        await store.start()
        yield store
    finally:
        await store.close()


@asynccontextmanager
async def connect_client(
    endpoints: ResolvedEndpoints, *, source: str = "warrener.command"
) -> AsyncGenerator[Client]:
    """A client of the broker, open for commands. Says so if nobody answers."""
    parse_broker_url(endpoints.broker_url)
    client = Client(endpoints.broker_url, namespace=endpoints.namespace, source=source)
    try:
        await _connect(client, endpoints.broker_url)
        yield client
    finally:
        await client.close()


class BrokerUnreachable(CommandError):
    """The broker does not answer."""

    def __init__(self, url: str, cause: str, do: str = _START_ONE) -> None:
        self.url, self.cause = url, cause
        super().__init__(f"expected a broker at {mask(url)}, got: {cause}", do=do, code=ExitCode.UNREACHABLE)


def credentials_error(error: BusCredentialsRefused) -> CommandError:
    """The broker refuses user, password or virtual host; the bus has said which, and what to do."""
    sentence, _, do = mask(str(error)).rpartition("; ")
    return CommandError(sentence, do=do, code=ExitCode.UNREACHABLE)


def parse_broker_url(url: str) -> Address:
    """The broker's URL, taken apart. Raises CommandError where it is none."""
    try:
        return parse_address(url)
    except ValueError as error:
        raise CommandError(
            f"expected a broker's URL like amqp://host:5672/vhost, got {mask(url)} ({error})",
            do="correct --broker or WARRENER_BROKER_URL",
            code=ExitCode.USAGE,
        ) from error


def os_error_text(error: OSError) -> str:
    """Such as `Connection refused`."""
    if isinstance(error, gaierror | SSLError):  # they count their errors in their own way
        return error.strerror or str(error)
    return os.strerror(error.errno) if error.errno else str(error)


async def check_reachable(url: str) -> None:
    """Raises OSError where nobody listens."""
    where = parse_broker_url(url)
    _, writer = await asyncio.open_connection(where.host, where.port)
    writer.close()


async def _connect(client: Client, url: str) -> None:
    try:
        async with asyncio.timeout(CONNECT_TIMEOUT):
            await check_reachable(url)  # the client is patient: it would wait for a broker that is not there
            await client.start()
    except TimeoutError:
        raise BrokerUnreachable(
            url, f"no answer within {CONNECT_TIMEOUT:g} s; `warrener doctor` says more"
        ) from None
    except OSError as error:
        raise BrokerUnreachable(url, os_error_text(error)) from error
    except BusCredentialsRefused as error:
        raise credentials_error(error) from error
