"""The requester's side of a system: a line names what to run, the answer says how long it took. And how a job
says that it ran: by a datagram, at the same cost for every system."""

import json
import socket
import sys
import time
from collections.abc import Callable, Mapping
from functools import cache

from tools.benchmarks.place import here

PATIENCE = 240.0  # seconds for one import


def drive(runs: Mapping[str, Callable[[int], object]]) -> None:
    """Answer each line `NAME NUMBER` of stdin by a line of JSON; the end of stdin ends it."""
    print(json.dumps({"ready": True}), flush=True)
    for line in sys.stdin:
        name, number = line.split()
        began = time.perf_counter()
        try:
            answer: dict[str, object] = {"result": runs[name](int(number))}
        except Exception as error:  # noqa: BLE001 - the harness notes it, and goes on
            answer = {"error": repr(error)[:500]}
        print(json.dumps(answer | {"seconds": time.perf_counter() - began}), flush=True)


@cache
def _socket() -> socket.socket:
    made = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    made.connect(("127.0.0.1", here().stamp_port))
    return made


def note(word: str) -> None:
    """Send the harness a word: `child` or `join`."""
    _socket().send(word.encode())
