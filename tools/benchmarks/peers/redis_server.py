"""A private Redis that keeps each write in its log, for the results of Celery's chords."""

import shutil
import socket
import subprocess
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from warrener_devservers.process import free_block


class RedisMissing(Exception):
    """There is no Redis here; the others are measured without it."""


@contextmanager
def redis_server(folder: Path) -> Generator[str]:
    """Its URL."""
    program = shutil.which("redis-server")
    if program is None:
        raise RedisMissing("expected redis-server on the PATH, got none; install Debian's redis-server")
    folder.mkdir()
    port = free_block((0,))
    options = ("--port", str(port), "--bind", "127.0.0.1", "--dir", str(folder), "--appendonly", "yes")
    process = subprocess.Popen([program, *options], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    try:
        for _ in range(100):
            try:
                socket.create_connection(("127.0.0.1", port), 1).close()
                break
            except OSError:
                time.sleep(0.1)
        yield f"redis://127.0.0.1:{port}/0"
    finally:
        process.kill()
        process.wait()


def version() -> str:
    """Of the program that there is."""
    shown = subprocess.run(["redis-server", "--version"], capture_output=True, text=True, check=True)
    return shown.stdout.split("v=")[1].split()[0]
