"""Runs commands: every error ends as a sentence and an exit code, never as a traceback."""

import asyncio
import os
from collections.abc import AsyncGenerator, Callable, Coroutine
from contextlib import asynccontextmanager
from functools import wraps
from typing import Any, NoReturn, ParamSpec, TypeVar
from urllib.parse import urlsplit

import typer

from warrener.exits import CommandError, Exit
from warrener.places import Places
from warrener.shown.screen import err
from warrener_client import Client, ClientError
from warrener_runtime import logs
from warrener_runtime.bus import BusCredentialsRefused, BusError
from warrener_runtime.servers import ServerError
from warrener_runtime.settings import mask
from warrener_store import StateStore, StoreError, StoreNotMigrated, open_store

T = TypeVar("T")
P = ParamSpec("P")

REACH_WITHIN = 10.0  # seconds until a broker that does not answer is said to be unreachable


def run(body: Coroutine[Any, Any, T]) -> T:
    """The result of a command's body."""
    logs.configure("warrener", level=os.environ.get("WARRENER_LOG_LEVEL", "error"), format="console")
    return asyncio.run(body)


def telling_errors(command: Callable[P, None]) -> Callable[P, None]:
    """The command, every error of which ends as a sentence and an exit code."""

    @wraps(command)
    def told(*args: P.args, **kwargs: P.kwargs) -> None:
        try:
            command(*args, **kwargs)
        except CommandError as error:
            fail(error.sentence, error.do, error.code)
        except StoreNotMigrated as error:
            fail(str(error), "run `warrener migrate`", Exit.UNREACHABLE)
        except (StoreError, BusError) as error:
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
async def store_at(places: Places) -> AsyncGenerator[StateStore]:
    """The store, open for questions."""
    try:
        store = open_store(places.store_url)
    except StoreError as error:  # nothing is connected yet: it is the URL
        raise CommandError(str(error), code=Exit.USAGE) from error
    try:
        await store.start()
        yield store
    finally:
        await store.close()


@asynccontextmanager
async def client_at(places: Places, *, source: str = "warrener.command") -> AsyncGenerator[Client]:
    """A client of the broker, open for commands. Says so if nobody answers."""
    client = Client(places.broker_url, source=source)
    try:
        await _reach(client, places.broker_url)
        yield client
    finally:
        await client.close()


def unreachable(url: str, came: str) -> CommandError:
    """The broker does not answer."""
    return CommandError(
        f"expected a broker at {mask(url)}, got: {came}",
        do="start one with `warrener up`, or say where it is with --broker or WARRENER_BROKER_URL",
        code=Exit.UNREACHABLE,
    )


def what_the_system_says(error: OSError) -> str:
    """Such as `Connection refused`."""
    return os.strerror(error.errno) if error.errno else str(error)


async def knock(url: str) -> None:
    """Raises OSError where nobody listens."""
    parts = urlsplit(url)
    port = parts.port or (5671 if parts.scheme == "amqps" else 5672)
    _, writer = await asyncio.open_connection(parts.hostname or "localhost", port)
    writer.close()


async def _reach(client: Client, url: str) -> None:
    try:
        async with asyncio.timeout(REACH_WITHIN):
            await knock(url)  # the client is patient: it would wait for a broker that is not there
            await client.start()
    except TimeoutError:
        raise unreachable(url, f"no answer within {REACH_WITHIN:g} s") from None
    except OSError as error:
        raise unreachable(url, what_the_system_says(error)) from error
    except BusCredentialsRefused as error:
        raise CommandError(
            f"expected the broker at {mask(url)} to let us in, got: {error}",
            do="check user, password and virtual host in --broker or WARRENER_BROKER_URL",
            code=Exit.UNREACHABLE,
        ) from error
