"""A RabbitMQ node as a child process."""

import shutil
import signal
import socket
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path

from warrener_runtime.servers.erlang_control import ErlangControl
from warrener_runtime.servers.errors import ServerFailed
from warrener_runtime.servers.guard_spec import GuardSpec
from warrener_runtime.servers.guarded_process import GuardedProcess
from warrener_runtime.servers.ports import free_block
from warrener_runtime.servers.rabbitmq_commands import RabbitMQCommands
from warrener_runtime.servers.rabbitmq_files import EPMD, MANAGEMENT, OFFSETS, NodeFiles
from warrener_runtime.servers.rabbitmq_install import RabbitMQInstallation

_GREETING = b"AMQP\x00\x00\x09\x01"
_START = b"\x00\x0a\x00\x0a"  # class 10, method 10: Connection.Start
_FRAME_HEAD = 7  # bytes: type, channel, size
_ANSWER_WITHIN = 5.0  # seconds
_STOP_WITHIN = 60.0


class PrivateRabbitMQ(RabbitMQCommands):
    """A node of one's own on 127.0.0.1, in a folder of its own, with an epmd of its own.

    `start` returns when the node speaks AMQP. The node ends with `stop`, or when this process dies in
    whatever way. Port and data stay the same over `stop`, `kill` and `start`. Plugins are off by default:
    management makes a stop take five seconds longer.
    """

    def __init__(
        self,
        folder: Path,
        port: int | None = None,
        *,
        plugins: Sequence[str] = (),
        consumer_timeout: timedelta | None = None,
        configuration: Sequence[str] = (),
        installation: RabbitMQInstallation | None = None,
        start_within: float = 90.0,
    ) -> None:
        """`configuration`: more lines for rabbitmq.conf. `port`: the first of five, chosen free if None."""
        self._installation = installation or RabbitMQInstallation.of_this_machine()
        self._files = NodeFiles(
            folder.absolute(),
            port or free_block(OFFSETS),
            tuple(plugins),
            consumer_timeout,
            tuple(configuration),
        )
        self._start_within = start_within
        self._control = ErlangControl(self._files.folder)
        self._processes = GuardedProcess(f"RabbitMQ in {folder}", self._spec())

    @property
    def port(self) -> int:
        """Where it speaks AMQP."""
        return self._files.port

    @property
    def url(self) -> str:
        """The virtual host `/`, as guest."""
        return f"amqp://guest:guest@127.0.0.1:{self.port}/"

    @property
    def management_url(self) -> str:
        """The HTTP API; there is one if the plugin rabbitmq_management is on."""
        return f"http://127.0.0.1:{self.port + MANAGEMENT}"

    @property
    def log(self) -> Path:
        """All that the node says."""
        return self._files.log

    @property
    def running(self) -> bool:
        """Whether its process lives."""
        return self._processes.running

    def start(self) -> None:
        """Start the node and wait until it speaks AMQP. Nothing happens if it runs."""
        if self.running:
            return
        self._files.write()
        self._files.pid_file.unlink(missing_ok=True)  # of a killed one: its process id may be another's now
        self._processes.start(self._is_ready, self._start_within)

    def stop(self) -> None:
        """End it in order; it keeps what it has."""
        self._control.close()
        self._processes.stop(signal.SIGTERM, _STOP_WITHIN, self._virtual_machine())

    def kill(self) -> None:
        """SIGKILL, as a power cut would end it (but for the disk's cache); see `settle`."""
        self._control.close()
        self._processes.kill()

    def remove(self) -> None:
        """SIGKILL, and its folder with all that it kept."""
        self.kill()
        shutil.rmtree(self._files.folder, ignore_errors=True)

    def restart(self) -> None:
        """Stop and start; every connection is closed."""
        self.stop()
        self.start()

    def pause(self) -> None:
        """SIGSTOP: its connections stay open, and nothing answers."""
        self._processes.pause()

    def resume(self) -> None:
        """SIGCONT after `pause`."""
        self._processes.resume()

    def evaluate(self, expressions: str) -> str:
        """Evaluate Erlang inside the node, for what AMQP cannot ask. It takes about a millisecond."""
        return self._control.evaluate(expressions)

    def _spec(self) -> GuardSpec:
        files = self._files
        return GuardSpec(
            commands=[
                [self._installation.epmd, "-port", str(files.port + EPMD), "-address", "127.0.0.1"],
                self._installation.server,
            ],
            environment=files.environment(self._installation),
            folder=str(files.folder),
            log=str(files.log),
        )

    def _virtual_machine(self) -> int | None:
        """The process that understands SIGTERM; before it there may be programs that do not pass it on."""
        try:
            return int(self._files.pid_file.read_text(encoding="ascii"))
        except (OSError, ValueError):
            return None

    def _is_ready(self) -> bool:
        """It speaks AMQP, and answers questions."""
        if not _speaks_amqp(self.port):
            return False
        try:
            return self.evaluate("rabbit:is_running()") == "true"
        except ServerFailed:
            return False  # the control socket is opened when all else has booted


def _speaks_amqp(port: int) -> bool:
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=_ANSWER_WITHIN) as connection:
            connection.sendall(_GREETING)
            with connection.makefile("rb") as answer:
                return answer.read(_FRAME_HEAD + len(_START))[_FRAME_HEAD:] == _START
    except OSError:
        return False
