"""Temporal's server on the harness's PostgreSQL: one process with all four services, built once by Go."""

import asyncio
import json
import os
import shutil
import subprocess
import time
from collections.abc import Generator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from google.protobuf.duration_pb2 import Duration
from temporalio.api.workflowservice.v1 import RegisterNamespaceRequest
from temporalio.client import Client
from temporalio.service import RPCError
from tools.benchmarks.place import ROOT
from tools.benchmarks.shared_servers import SharedServers

from warrener_devservers.process import free_block

VERSION = "1.31.1"  # the newest that Go 1.26.8 builds
_MODULE = f"go.temporal.io/server/cmd/%s@v{VERSION}"
_PROGRAMS = ROOT / "build" / "temporal"
_START_TIMEOUT = 120.0  # seconds
_PORTS = range(9)


class TemporalMissing(Exception):
    """The server cannot be built here; the others are measured without it."""


def build() -> None:
    """Build the server and the tool that makes its tables. Raises TemporalMissing."""
    if (_PROGRAMS / "server").exists() and (_PROGRAMS / "sql").exists():
        return
    go = shutil.which("go")
    if go is None:
        raise TemporalMissing("expected go on the PATH to build Temporal, got none; install Go 1.26 or later")
    for program in ("server", "tools/sql"):
        built = subprocess.run(
            [go, "install", _MODULE % program],
            env=os.environ | {"GOBIN": str(_PROGRAMS)},
            capture_output=True,
            text=True,
            check=False,
        )
        if built.returncode:
            raise TemporalMissing(f"expected Temporal to build, got: {built.stderr[-1000:]}")


@contextmanager
def temporal_server(servers: SharedServers, folder: Path) -> Generator[str]:
    """The address of a server with the namespace `default`."""
    build()
    folder.mkdir()
    urls = {name: servers.add_database(f"temporal_{name}") for name in ("main", "visibility")}
    for name, schema in (("main", "temporal"), ("visibility", "visibility")):
        _make_tables(urls[name], schema)
    first = free_block(tuple(_PORTS))
    (folder / "dynamic.yaml").write_text(
        json.dumps({"limit.maxIDLength": [{"value": 255, "constraints": {}}]})
    )
    (folder / "temporal.yaml").write_text(json.dumps(_config(urls, first, folder)))
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            [str(_PROGRAMS / "server"), "--config-file", str(folder / "temporal.yaml"), "start"],
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
        )
    try:
        address = f"127.0.0.1:{first}"
        asyncio.run(_register(address, process, folder / "log"))
        yield address
    finally:
        process.kill()
        process.wait()


def _make_tables(url: str, schema: str) -> None:
    parts = urlsplit(url)
    cached = subprocess.run(["go", "env", "GOMODCACHE"], capture_output=True, text=True, check=True)
    source = Path(
        cached.stdout.strip(), f"go.temporal.io/server@v{VERSION}/schema/postgresql/v12/{schema}/versioned"
    )
    tool = [
        str(_PROGRAMS / "sql"),
        "--plugin",
        "postgres12",
        "--ep",
        str(parts.hostname),
        "-p",
        str(parts.port),
    ]
    tool += ["-u", str(parts.username), "--pw", parts.password or "", "--db", parts.path.strip("/")]
    for arguments in (["setup-schema", "-v", "0.0"], ["update-schema", "-d", str(source)]):
        subprocess.run([*tool, *arguments], check=True, capture_output=True)


def _config(urls: dict[str, str], first: int, folder: Path) -> dict[str, Any]:
    def store(url: str, connections: int) -> dict[str, Any]:
        parts = urlsplit(url)
        return {
            "sql": {
                "pluginName": "postgres12",
                "databaseName": parts.path.strip("/"),
                "connectAddr": f"{parts.hostname}:{parts.port}",
                "connectProtocol": "tcp",
                "user": parts.username,
                "password": parts.password or "",
                "maxConns": connections,
                "maxIdleConns": connections,
                "maxConnLifetime": "1h",
            }
        }

    def service(number: int) -> dict[str, Any]:
        return {
            "rpc": {"grpcPort": first + number, "membershipPort": first + number + 4, "bindOnLocalHost": True}
        }

    return {
        "log": {"stdout": True, "level": "error"},
        "persistence": {
            "defaultStore": "main",
            "visibilityStore": "visibility",
            "numHistoryShards": 4,
            "datastores": {"main": store(urls["main"], 20), "visibility": store(urls["visibility"], 4)},
        },
        "global": {"membership": {"maxJoinDuration": "30s", "broadcastAddress": "127.0.0.1"}},
        "services": {
            name: service(n) for n, name in enumerate(("frontend", "matching", "history", "worker"))
        },
        "clusterMetadata": {
            "enableGlobalNamespace": False,
            "failoverVersionIncrement": 10,
            "masterClusterName": "active",
            "currentClusterName": "active",
            "clusterInformation": {
                "active": {
                    "enabled": True,
                    "initialFailoverVersion": 1,
                    "rpcName": "frontend",
                    "rpcAddress": f"127.0.0.1:{first}",
                }
            },
        },
        "dcRedirectionPolicy": {"policy": "noop"},
        "dynamicConfigClient": {"filepath": str(folder / "dynamic.yaml"), "pollInterval": "60s"},
    }


def _end(log: Path) -> str:
    return log.read_text()[-3000:]


async def _register(address: str, process: "subprocess.Popen[bytes]", log: Path) -> None:
    deadline = time.monotonic() + _START_TIMEOUT
    while True:
        if process.poll() is not None or time.monotonic() > deadline:
            raise TemporalMissing(f"expected Temporal's server to start, got: {_end(log)}")
        try:
            client = await Client.connect(address)
            await client.workflow_service.register_namespace(
                RegisterNamespaceRequest(
                    namespace="default",
                    workflow_execution_retention_period=Duration(
                        seconds=int(timedelta(days=1).total_seconds())
                    ),
                )
            )
        except (RPCError, RuntimeError):
            await asyncio.sleep(0.5)
        else:
            return
