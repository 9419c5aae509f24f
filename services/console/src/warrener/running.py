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

from warrener.exits import CommandError, Exit
from warrener.places import Places
from warrener.shown.screen import err
from warrener.store_trouble import of_store
from warrener_amqp.address import Address, parse_address
from warrener_client import Client, ClientError
from warrener_runtime import logs
from warrener_runtime.bus import BusCredentialsRefused, BusError
from warrener_runtime.servers import ServerError
from warrener_runtime.settings import mask
from warrener_store import Store, StoreError, open_store

T = TypeVar("T")
P = ParamSpec("P")

_START_ONE = "start one with `warrener up`, or say where it is with --broker or WARRENER_BROKER_URL"
REACH_WITHIN = 10.0  # seconds until a broker that does not answer is said to be unreachable


def run(body: Coroutine[Any, Any, T]) -> T:
    """The result of a command's body."""
    level = os.environ.get("WARRENER_LOG_LEVEL")
    logs.configure("warrener", level=level or "error", format="console")
    if level is None:  # every error is told as a sentence; the library's own record of it says nothing more
        logging.getLogger("aiormq").setLevel(logging.CRITICAL)
    return asyncio.run(body)


def telling_errors(command: Callable[P, None]) -> Callable[P, None]:
    """The command, every error of which ends as a sentence and an exit code."""

    @wraps(command)
    def told(*args: P.args, **kwargs: P.kwargs) -> None:
        try:
            command(*args, **kwargs)
        except CommandError as error:
            fail(error.sentence, error.do, error.code)
        except StoreError as error:
            trouble = of_store(error)
            fail(trouble.sentence, trouble.do, trouble.code)
        except BusError as error:
            fail(str(error), None, Exit.UNREACHABLE)
        except (ClientError, ServerError) as error:
            fail(str(error), None, Exit.FAILED)
        except KeyboardInterrupt:
            raise typer.Exit(Exit.INTERRUPTED) from None

    return told


def fail(sentence: str, do: str | None, code: Exit) -> NoReturn:
    """Say it, and end."""
    screen = err()
    screen.print("[bad]✗[/] ", end="")
    screen.print(mask(sentence), markup=False)
    if do:
        screen.print("  [soft]→[/] ", end="")
        screen.print(mask(do), markup=False)
    raise typer.Exit(code)


@asynccontextmanager
async def store_at(places: Places) -> AsyncGenerator[Store]:
    """The store, open for questions."""
    store = open_store(places.store_url)
    try:
        await store.start()
        yield store
    finally:
        await store.close()


@asynccontextmanager
async def client_at(places: Places, *, source: str = "warrener.command") -> AsyncGenerator[Client]:
    """A client of the broker, open for commands. Says so if nobody answers."""
    broker_address(places.broker_url)
    client = Client(places.broker_url, namespace=places.namespace, source=source)
    try:
        await _reach(client, places.broker_url)
        yield client
    finally:
        await client.close()


class Unreachable(CommandError):
    """The broker does not answer."""

    def __init__(self, url: str, came: str, do: str = _START_ONE) -> None:
        self.url, self.came = url, came
        super().__init__(f"expected a broker at {mask(url)}, got: {came}", do=do, code=Exit.UNREACHABLE)


def not_let_in(error: BusCredentialsRefused) -> CommandError:
    """The broker refuses user, password or virtual host; the bus has said which, and what to do."""
    sentence, _, do = mask(str(error)).rpartition("; ")
    return CommandError(sentence, do=do, code=Exit.UNREACHABLE)


def broker_address(url: str) -> Address:
    """The broker's URL, taken apart. Raises CommandError where it is none."""
    try:
        return parse_address(url)
    except ValueError as error:
        raise CommandError(
            f"expected a broker's URL like amqp://host:5672/vhost, got {mask(url)} ({error})",
            do="correct --broker or WARRENER_BROKER_URL",
            code=Exit.USAGE,
        ) from error


def what_the_system_says(error: OSError) -> str:
    """Such as `Connection refused`."""
    if isinstance(error, gaierror | SSLError):  # they count their errors in their own way
        return error.strerror or str(error)
    return os.strerror(error.errno) if error.errno else str(error)


async def knock(url: str) -> None:
    """Raises OSError where nobody listens."""
    where = broker_address(url)
    _, writer = await asyncio.open_connection(where.host, where.port)
    writer.close()


async def _reach(client: Client, url: str) -> None:
    try:
        async with asyncio.timeout(REACH_WITHIN):
            await knock(url)  # the client is patient: it would wait for a broker that is not there
            await client.start()
    except TimeoutError:
        raise Unreachable(url, f"no answer within {REACH_WITHIN:g} s; `warrener doctor` says more") from None
    except OSError as error:
        raise Unreachable(url, what_the_system_says(error)) from error
    except BusCredentialsRefused as error:
        raise not_let_in(error) from error
