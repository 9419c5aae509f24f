"""Runs the body of a command: every error ends as a sentence and an exit code, never as a traceback."""

import asyncio
import os
from collections.abc import AsyncGenerator, Coroutine
from contextlib import asynccontextmanager
from typing import Any, NoReturn, TypeVar

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

REACH_WITHIN = 10.0  # seconds until a broker that does not answer is said to be unreachable


def run(body: Coroutine[Any, Any, T]) -> T:
    """The result of a command's body."""
    logs.configure("warrener", level=os.environ.get("WARRENER_LOG_LEVEL", "error"), format="console")
    try:
        return asyncio.run(body)
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
    except ValueError as error:
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


async def _reach(client: Client, url: str) -> None:
    try:
        async with asyncio.timeout(REACH_WITHIN):
            await client.start()
    except TimeoutError:
        raise CommandError(
            f"expected a broker at {mask(url)}, got no answer within {REACH_WITHIN:g} s",
            do="start one with `warrener up`, or say where it is with --broker or WARRENER_BROKER_URL",
            code=Exit.UNREACHABLE,
        ) from None
    except BusCredentialsRefused as error:
        raise CommandError(
            f"expected the broker at {mask(url)} to let us in, got: {error}",
            do="check user, password and virtual host in --broker or WARRENER_BROKER_URL",
            code=Exit.UNREACHABLE,
        ) from error
