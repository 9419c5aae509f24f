"""A RabbitMQ node as a child process: its installation, its folder, its commands, and questions by Erlang."""

import contextlib
import os
import re
import secrets
import shutil
import signal
import socket
import struct
import threading
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from importlib import resources
from pathlib import Path

from warrener_devservers import process

# The scripts themselves: the wrappers on PATH change to the user rabbitmq, which only root may.
_DEBIAN = "/usr/lib/rabbitmq/bin"
_OTHERS = (
    "/opt/rabbitmq/sbin",
    "/usr/local/sbin",
    "/opt/homebrew/opt/rabbitmq/sbin",
    "/usr/local/opt/rabbitmq/sbin",
)

GUEST = "guest"
_VHOST_NAME = re.compile(r"[A-Za-z0-9._-]+")
SOCKET = "control"
BOOT_SCRIPT = "boot.es"
SCRIPT = "control.es"
_LENGTH = struct.Struct(">I")
_PATIENCE = 30.0  # seconds

# The ports of a node, counted from its first one.
MANAGEMENT, PROMETHEUS, DISTRIBUTION, EPMD = 1, 2, 3, 4

OFFSETS = (0, MANAGEMENT, PROMETHEUS, DISTRIBUTION, EPMD)
_GREETING = b"AMQP\x00\x00\x09\x01"
_START = b"\x00\x0a\x00\x0a"  # class 10, method 10: Connection.Start
_FRAME_HEAD = 7  # bytes: type, channel, size
_ANSWER_WITHIN = 5.0  # seconds
_START_WITHIN, _STOP_WITHIN = 90.0, 60.0
_ADVANCED = "[{rabbit, [{dead_letter_worker_publisher_confirm_timeout, 20000}]}].\n"
"""A dead letter that a full queue refused is published again after 20 s. RabbitMQ's default is 180 s, and
retries leave the delay queues as dead letters. The setting has no key in rabbitmq.conf."""


@dataclass(frozen=True, slots=True)
class RabbitMQInstallation:
    """The programs of one RabbitMQ. `prefix` goes before the server's command (another root folder, say)."""

    scripts: str = _DEBIAN
    epmd: str = "epmd"
    prefix: Sequence[str] = field(default=())

    @classmethod
    def of_this_machine(cls) -> "RabbitMQInstallation":
        """Find the installed one; `WARRENER_RABBITMQ_SCRIPTS` names the folder if it is elsewhere."""
        named = os.environ.get("WARRENER_RABBITMQ_SCRIPTS")
        candidates = (named,) if named else (_DEBIAN, *_OTHERS)
        for folder in candidates:
            if (Path(folder) / "rabbitmq-server").exists():
                return cls(scripts=folder, epmd=_epmd())
        raise process.ServerMissing(
            f"expected rabbitmq-server in {' or '.join(candidates)}, got none; "
            "install it (Debian, Ubuntu: apt-get install rabbitmq-server) or set WARRENER_RABBITMQ_SCRIPTS "
            "to the folder that has it"
        )

    @property
    def server(self) -> list[str]:
        return [*self.prefix, f"{self.scripts}/rabbitmq-server"]


def _epmd() -> str:
    """Find Erlang's port mapper; some packages install it beside the virtual machine, and not on PATH."""
    if found := shutil.which("epmd"):
        return found
    for found_path in sorted(Path("/usr/lib/erlang").glob("erts-*/bin/epmd")):
        return str(found_path)
    raise process.ServerMissing(
        "expected Erlang's epmd, got none; install it (Debian, Ubuntu: apt-get install erlang-base)"
    )


class RabbitMQCommands(ABC):
    """The commands of a node that evaluates Erlang."""

    user = GUEST
    """The user with all permissions in a new virtual host."""

    @property
    @abstractmethod
    def url(self) -> str:
        """The URL of the virtual host `/`; the name of another one may be appended."""

    @abstractmethod
    def evaluate(self, expressions: str) -> str:
        """Evaluate Erlang; return the value of the last expression as text. Raises ServerFailed."""

    def add_vhost(self, name: str) -> str:
        """Add a virtual host with all permissions for `user`; return its URL."""
        self.evaluate(self._addition(_quoted(name)))
        return f"{self.url}{name}"

    def drop_vhost(self, name: str) -> None:
        """Delete a virtual host and all in it, in the background."""
        self.evaluate(f'spawn(fun() -> rabbit_vhost:delete({_quoted(name)}, <<"warrener">>) end)')

    def clear(self) -> None:
        """Delete the virtual host `/` with all in it and add an empty one; its connections are closed."""
        root = '<<"/">>'
        self.evaluate(f'ok = rabbit_vhost:delete({root}, <<"warrener">>), {self._addition(root)}')

    def _addition(self, vhost: str) -> str:
        return (
            f'ok = rabbit_vhost:add({vhost}, <<"warrener">>), '
            f"ok = rabbit_auth_backend_internal:set_permissions("
            f'<<"{self.user}">>, {vhost}, <<".*">>, <<".*">>, <<".*">>, <<"warrener">>)'
        )

    def close_connections(self, reason: str = "closed by the test") -> None:
        """Close every client's connection, as an operator may (CONNECTION_FORCED)."""
        text = reason.replace("\\", "").replace('"', "'")
        self.evaluate(
            f'[rabbit_networking:close_connection(C, "{text}") || C <- rabbit_networking:connections()]'
        )

    def settle(self) -> None:
        """Write the list of queues to disk. Call this between declaring quorum queues and killing the node.

        RabbitMQ 3.10 stores a new quorum queue a second late: a node killed in that second loses confirmed
        messages, and the queue never has a leader again, which is no concern of our tests.
        """
        self.evaluate("[dets:sync(Table) || Table <- dets:all()]")

    def version(self) -> str:
        """Return the version, such as 3.10.8."""
        return self.evaluate("rabbit_misc:version()").strip('"')


def _quoted(name: str) -> str:
    if not _VHOST_NAME.fullmatch(name):
        raise ValueError(f"expected a vhost name of A-Z, a-z, 0-9, '.', '_' and '-', got {name!r}")
    return f'<<"{name}">>'


def script(name: str) -> str:
    """Read an Erlang script: one is evaluated before RabbitMQ boots, the other one answers on the socket."""
    return resources.files("warrener_devservers").joinpath(name).read_text(encoding="utf-8")


class ErlangControl:
    """Evaluates Erlang inside the node in `folder`. Threads may share it."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._lock = threading.Lock()
        self._connection: socket.socket | None = None

    def evaluate(self, expressions: str) -> str:
        """Evaluate Erlang; return the value of the last expression as text. Raises ServerFailed."""
        with self._lock:
            try:
                answer = self._request(expressions)
            except OSError as error:
                self._close()
                raise process.ServerFailed(
                    f"expected an answer of the node in {self._folder}, got {error}; is it running?"
                ) from error
        if not answer.startswith("+"):
            raise process.ServerFailed(f"expected the node to evaluate {expressions!r}, got {answer[1:]}")
        return answer[1:]

    def close(self) -> None:
        """Close the connection; the next call opens another."""
        with self._lock:
            self._close()

    def _request(self, expressions: str) -> str:
        if self._connection is None:
            self._connection = self._connect()
        body = f"{expressions.rstrip().rstrip('.')}.".encode()
        self._connection.sendall(_LENGTH.pack(len(body)) + body)
        (length,) = _LENGTH.unpack(self._read(self._connection, _LENGTH.size))
        return self._read(self._connection, length).decode()

    def _connect(self) -> socket.socket:
        # A socket's path may have 107 bytes, and the folder's may have more; by its descriptor it is short.
        folder = os.open(self._folder, os.O_PATH | os.O_DIRECTORY)
        connection = socket.socket(socket.AF_UNIX)
        try:
            connection.settimeout(_PATIENCE)
            connection.connect(f"/proc/self/fd/{folder}/{SOCKET}")
        except BaseException:
            connection.close()
            raise
        finally:
            os.close(folder)
        return connection

    def _read(self, connection: socket.socket, size: int) -> bytes:
        data = bytearray()
        while len(data) < size:
            chunk = connection.recv(size - len(data))
            if not chunk:
                raise ConnectionResetError("the end of the connection")
            data += chunk
        return bytes(data)

    def _close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None


@dataclass(frozen=True, slots=True)
class NodeFiles:
    """Folder, configuration and environment of one node. Pure but for `write`."""

    folder: Path
    port: int
    plugins: Sequence[str] = ()
    consumer_timeout: timedelta | None = None
    extra: Sequence[str] = ()
    password: str = field(default=GUEST, repr=False)

    @property
    def name(self) -> str:
        """The name of the Erlang node: its data bears it. Nodes of one name do not meet, for each has a port
        mapper of its own."""
        return "warrener@localhost"

    @property
    def log(self) -> Path:
        return self.folder / "node.log"

    @property
    def pid_file(self) -> Path:
        return self.folder / "pid"

    @property
    def cookie(self) -> Path:
        return self.folder / "home" / ".erlang.cookie"

    def write(self) -> None:
        """Write the folder's files; the data of a former node stays."""
        for folder in (self.folder, self.cookie.parent, self.folder / "conf.d", self.folder / "log"):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.folder.chmod(0o700)  # read access to it is control of the node
        if not self.cookie.exists():
            self.cookie.write_text(secrets.token_hex(16), encoding="ascii")
            self.cookie.chmod(0o400)
        files = {
            "rabbitmq.conf": self.configuration(),
            "advanced.config": _ADVANCED,
            "enabled_plugins": f"[{','.join(self.plugins)}].\n",
            **{name: script(name) for name in (BOOT_SCRIPT, SCRIPT)},
        }
        for name, text in files.items():
            (self.folder / name).touch(mode=0o600)
            (self.folder / name).write_text(text, encoding="utf-8")
        self.log.touch(mode=0o600)

    def configuration(self) -> str:
        lines = [f"listeners.tcp.default = 127.0.0.1:{self.port}", "loopback_users.guest = true"]
        if self.password != GUEST:
            lines.append(f"default_pass = {self.password}")  # of a new node
        if "rabbitmq_management" in self.plugins:
            lines += ["management.tcp.ip = 127.0.0.1", f"management.tcp.port = {self.port + MANAGEMENT}"]
        if "rabbitmq_prometheus" in self.plugins:
            lines += ["prometheus.tcp.ip = 127.0.0.1", f"prometheus.tcp.port = {self.port + PROMETHEUS}"]
        if self.consumer_timeout is not None:
            lines.append(f"consumer_timeout = {round(self.consumer_timeout.total_seconds() * 1000)}")
        return "\n".join([*lines, *self.extra, ""])

    def epmd_environment(self) -> dict[str, str]:
        """The variables of Erlang's port mapper, for this node alone."""
        return {"ERL_EPMD_PORT": str(self.port + EPMD), "ERL_EPMD_ADDRESS": "127.0.0.1"}

    def environment(self, installation: RabbitMQInstallation) -> dict[str, str]:
        """The node's whole environment: no variable of ours reaches it."""
        folder = self.folder
        return self.epmd_environment() | {
            "PATH": f"{installation.scripts}:{os.environ.get('PATH', os.defpath)}",
            "HOME": str(folder / "home"),
            "LANG": "C.UTF-8",
            "RABBITMQ_NODENAME": self.name,
            "RABBITMQ_CONF_ENV_FILE": str(folder / "none"),
            "RABBITMQ_CONFIG_FILE": str(folder / "rabbitmq.conf"),
            "RABBITMQ_CONFIG_FILES": str(folder / "conf.d"),
            "RABBITMQ_ADVANCED_CONFIG_FILE": str(folder / "advanced.config"),
            "RABBITMQ_ENABLED_PLUGINS_FILE": str(folder / "enabled_plugins"),
            "RABBITMQ_MNESIA_BASE": str(folder / "mnesia"),
            "RABBITMQ_LOG_BASE": str(folder / "log"),
            "RABBITMQ_LOGS": "-",
            "RABBITMQ_PID_FILE": str(self.pid_file),
            # The node runs in this folder, so the file names are enough.
            "ERL_AFLAGS": f"-eval 'file:eval(\"{BOOT_SCRIPT}\").'",
            "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": " ".join(self._arguments()),
            # The script then execs the virtual machine, which so dies with the guard.
            "RABBITMQ_ALLOW_INPUT": "1",
            "RABBITMQ_SERVER_START_ARGS": "-noinput",
        }

    def _arguments(self) -> list[str]:
        """The virtual machine's arguments. It has its name before RabbitMQ boots, which else starts a second
        one first, to look for a port mapper."""
        port = str(self.port + DISTRIBUTION)
        loopback = ["inet_dist_use_interface", "{127,0,0,1}"]  # else any host may try the cookie
        ports = ["-kernel", "inet_dist_listen_min", port, "inet_dist_listen_max", port, *loopback]
        return ["-sname", self.name, *ports, "-eval", f'file:eval("{SCRIPT}").']


class PrivateRabbitMQ(RabbitMQCommands, process.PrivateServer):
    """A node of one's own on 127.0.0.1, in a folder of its own, with an epmd of its own.

    `start` returns when the node speaks AMQP. The node ends with `stop`, or when this process dies in
    any way. Port and data stay the same over `stop`, `kill` and `start`. Plugins are off by default:
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
        password: str = GUEST,
    ) -> None:
        """`configuration`: additional lines of rabbitmq.conf. `port`: the first of five, if they are free;
        else, and for None, others that are. The data belongs to the folder, whatever the port. `password`:
        of the user guest in a new node, of A-Z, a-z and 0-9."""
        self._installation = installation or RabbitMQInstallation.of_this_machine()
        first = port if port and process.reserve_block(port, OFFSETS) else process.free_block(OFFSETS)
        self._files = NodeFiles(
            folder.absolute(), first, tuple(plugins), consumer_timeout, tuple(configuration), password
        )
        self._control = ErlangControl(self._files.folder)
        super().__init__(f"RabbitMQ in {folder}", self._guard_spec())

    @property
    def port(self) -> int:
        return self._files.port

    @property
    def url(self) -> str:
        """The URL of the virtual host `/`, as guest."""
        return f"amqp://{self.user}:{self._files.password}@127.0.0.1:{self.port}/"

    @property
    def management_url(self) -> str:
        """The URL of the HTTP API, which the plugin rabbitmq_management serves."""
        return f"http://127.0.0.1:{self.port + MANAGEMENT}"

    def start(self) -> None:
        """Start the node and wait until it speaks AMQP; do nothing if it runs."""
        if self.running:
            return
        self._files.write()
        self._files.pid_file.unlink(missing_ok=True)  # of a killed node: its process id may have been reused
        self.launch(self._is_ready, _START_WITHIN)

    def stop(self) -> None:
        """Stop the node in order; its data stays."""
        self._control.close()
        virtual_machine: int | None = None  # it handles SIGTERM; its parents may not pass the signal on
        with contextlib.suppress(OSError, ValueError):
            virtual_machine = int(self._files.pid_file.read_text(encoding="ascii"))
        self.end(signal.SIGTERM, _STOP_WITHIN, virtual_machine)

    def kill(self) -> None:
        """SIGKILL the node, as by a power cut (but for the disk's cache); see `settle`."""
        self._control.close()
        super().kill()

    def evaluate(self, expressions: str) -> str:
        """Evaluate Erlang inside the node, in about a millisecond. Raises ServerFailed."""
        return self._control.evaluate(expressions)

    def _guard_spec(self) -> process.GuardSpec:
        files = self._files
        return process.GuardSpec(
            commands=[
                [self._installation.epmd, "-port", str(files.port + EPMD), "-address", "127.0.0.1"],
                self._installation.server,
            ],
            environment=files.environment(self._installation),
            folder=str(files.folder),
            log=str(files.log),
        )

    def _is_ready(self) -> bool:
        """True if the node speaks AMQP and evaluates Erlang."""
        try:
            return _speaks_amqp(self.port) and self.evaluate("rabbit:is_running()") == "true"
        except process.ServerFailed:
            return False  # the control socket opens last


def _speaks_amqp(port: int) -> bool:
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=_ANSWER_WITHIN) as connection:
            connection.sendall(_GREETING)
            with connection.makefile("rb") as answer:
                return answer.read(_FRAME_HEAD + len(_START))[_FRAME_HEAD:] == _START
    except OSError:
        return False
