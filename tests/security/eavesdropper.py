"""Somebody with every right to look: at each message of the broker, at the databases, at logs and traces."""

import asyncio
from collections.abc import Iterator
from uuid import uuid4

import asyncpg
from aiormq.abc import AbstractChannel
from tests.acceptance.warren import Warren
from tests.broker_access import on_broker

from warrener_contracts.topology import EXCHANGES


class Eavesdropper:
    """Receives a copy of each message that is published to an exchange of a warren from now on."""

    def __init__(self, warren: Warren) -> None:
        self._warren, self._queue = warren, f"tap.{uuid4().hex[:12]}"
        self.messages: list[bytes] = []

        async def bind(channel: AbstractChannel) -> None:
            await channel.queue_declare(self._queue, durable=True, arguments={"x-expires": 600_000})
            for exchange in EXCHANGES:
                if exchange.kind == "topic":
                    await channel.queue_bind(self._queue, exchange.name, "#")

        on_broker(warren.broker_url, bind)

    def take_all(self) -> list[bytes]:
        """The bodies of all messages so far, with their headers."""

        async def take(channel: AbstractChannel) -> None:
            while (message := await channel.basic_get(self._queue, no_ack=True)).delivery_tag:
                properties = message.header.properties
                self.messages.append(bytes(message.body) + repr(properties.headers).encode())

        on_broker(self._warren.broker_url, take)
        return self.messages

    def read(self) -> Iterator[tuple[str, bytes]]:
        """All that is on disk, in databases, and in the broker's messages, each with its place."""
        for file in self._warren.folder.rglob("*"):
            if file.is_file() and file.suffix not in {".toml"}:
                yield file.name, file.read_bytes()
        if self._warren.store_url.startswith("postgres"):
            yield from asyncio.run(_dump(self._warren.store_url)).items()
        for body in self.take_all():
            yield "a message", body


async def _dump(url: str) -> dict[str, bytes]:
    connection: asyncpg.Connection = await asyncpg.connect(url)
    try:
        tables = await connection.fetch(
            "SELECT schemaname || '.' || tablename AS name FROM pg_tables WHERE schemaname = 'public'"
        )
        return {
            one["name"]: "\n".join(
                row[0] for row in await connection.fetch(f"SELECT t::text FROM {one['name']} t")
            ).encode()
            for one in tables
        }
    finally:
        await connection.close()
