"""One system that is up, and its runs: timed, or with its workers killed at the join."""

import contextlib
import json
import os
import select
import signal
import socket
import subprocess
import time
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
from tools.benchmarks.peers.systems import Peer
from tools.benchmarks.place import Place
from tools.benchmarks.processes import Workers

_WARM_UP = 300.0  # seconds for an import
_SETTLE = 2.0
HUNG = 120.0  # seconds after the kill in which an import has to end


@dataclass(frozen=True, slots=True)
class Kill:
    """What came of one import whose workers were killed."""

    milliseconds: float  # between the end of the last child's code and the kill
    ended_after: float | None  # seconds from the kill to the result; None: it had none within `HUNG`
    joins: int  # how often the job behind the join ran
    children: int  # how often a child ran
    was_late: bool  # True if the job behind the join had begun before the kill


class Contestant:
    """A system in its place."""

    def __init__(self, peer: Peer, place: Place) -> None:
        self.peer, self._place = peer, place
        self._log = Path(place.folder) / f"peers-{''.join(filter(str.isalnum, peer.name))}.log"
        self._notes = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._notes.bind(("127.0.0.1", place.stamp_port))
        self._steady = Workers.start(peer.steady, place, self._log)
        self._workers = Workers.start(peer.workers, place, self._log)
        self._driver = self._start_driver()

    @classmethod
    @contextmanager
    def made(cls, peer: Peer, place: Place) -> Generator["Contestant"]:
        """Up and warm; gone afterwards."""
        one = cls(peer, place)
        try:
            one._warm_up()
            yield one
        except Exception as error:
            error.add_note(f"{peer.name} said last:\n{one._log.read_text(errors='replace')[-3000:]}")
            raise
        finally:
            one._driver.kill()
            one._driver.wait()
            one._workers.stop()
            one._steady.stop()
            one._notes.close()

    def seconds(self, name: str, number: int) -> float:
        """Time of one run, as its requester sees it."""
        self._begin(name, number)
        answer = self._answer(_WARM_UP)
        if answer is None or answer.get("result") != number:
            raise RuntimeError(f"expected {number} of {self.peer.name}'s {name}, got {answer}")
        return float(answer["seconds"])

    def kill_at_join(self, children: int, milliseconds: float) -> Kill:
        """Kill all workers so long after the last child has run, and start them again at once."""
        family = self._family()
        self._drain()
        self._begin("watched", children)
        self._notes.settimeout(_WARM_UP)
        seen = [self._notes.recv(16) for _ in range(children)]
        time.sleep(milliseconds / 1000)
        for pid in family:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        killed_at = time.perf_counter()
        late = self._drain()
        for process in self._workers.processes:
            process.wait()
        self._workers = Workers.start(self.peer.workers, self._place, self._log)
        answer = self._answer(HUNG)
        ended_at = time.perf_counter()
        time.sleep(_SETTLE)  # a second join may come late
        words = [*seen, *late, *self._drain()]
        if answer is None or "result" not in answer:
            self._driver.kill()
            self._driver.wait()
            self._driver = self._start_driver()
        ended = answer is not None and answer.get("result") == children
        return Kill(
            milliseconds,
            ended_at - killed_at if ended else None,
            words.count(b"join"),
            words.count(b"child"),
            b"join" in (*seen, *late),
        )

    def _family(self) -> list[int]:
        found = list[int]()
        for pid in self._workers.pids:
            found += [pid, *(child.pid for child in psutil.Process(pid).children(recursive=True))]
        return found

    def _drain(self) -> list[bytes]:
        self._notes.settimeout(0)
        words = list[bytes]()
        with contextlib.suppress(BlockingIOError):
            while True:
                words.append(self._notes.recv(16))
        return words

    def _warm_up(self) -> None:
        deadline = time.monotonic() + _WARM_UP
        for name in ("import", "calls", "watched", *(("steps",) if self.peer.has_steps else ())):
            while True:
                try:
                    self.seconds(name, 20)
                    break
                except RuntimeError:  # its tables are being made
                    if time.monotonic() > deadline:
                        raise
                    time.sleep(_SETTLE)

    def _start_driver(self) -> "subprocess.Popen[str]":
        command = self.peer.driver
        with self._log.open("ab") as out:
            driver = subprocess.Popen(
                [command.program, *command.arguments],
                cwd=command.root,
                env=self._place.environment(**command.environment),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=out,
                text=True,
            )
        assert driver.stdout is not None
        driver.stdout.readline()  # it is ready
        return driver

    def _begin(self, name: str, number: int) -> None:
        assert self._driver.stdin is not None
        self._driver.stdin.write(f"{name} {number}\n")
        self._driver.stdin.flush()

    def _answer(self, within: float) -> dict[str, Any] | None:
        assert self._driver.stdout is not None
        readable, _, _ = select.select([self._driver.stdout], [], [], within)
        line = self._driver.stdout.readline() if readable else ""
        return json.loads(line) if line else None
