"""What a private RabbitMQ node finds in its folder and in its environment. Pure but for `write`."""

import os
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

from warrener_runtime.servers import erlang_control
from warrener_runtime.servers.rabbitmq_install import RabbitMQInstallation

# What a node needs of ports, counted from its first one.
MANAGEMENT, PROMETHEUS, DISTRIBUTION, EPMD = 1, 2, 3, 4
OFFSETS = (0, MANAGEMENT, PROMETHEUS, DISTRIBUTION, EPMD)


@dataclass(frozen=True, slots=True)
class NodeFiles:
    """The configuration of one node."""

    folder: Path
    port: int
    plugins: Sequence[str] = ()
    consumer_timeout: timedelta | None = None
    extra: Sequence[str] = ()

    @property
    def name(self) -> str:
        """The Erlang node."""
        return f"warrener{self.port}@localhost"

    @property
    def log(self) -> Path:
        """Where the node writes all it has to say."""
        return self.folder / "node.log"

    @property
    def pid_file(self) -> Path:
        """Where the virtual machine says its process id."""
        return self.folder / "pid"

    @property
    def cookie(self) -> Path:
        """What Erlang nodes prove themselves with."""
        return self.folder / "home" / ".erlang.cookie"

    def write(self) -> None:
        """Make the folder; the data of a former node in it stays."""
        for folder in (self.folder, self.cookie.parent, self.folder / "conf.d", self.folder / "log"):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.folder.chmod(0o700)  # whoever may enter it may command the node
        if not self.cookie.exists():
            self.cookie.write_text(secrets.token_hex(16), encoding="ascii")
            self.cookie.chmod(0o400)
        (self.folder / "rabbitmq.conf").write_text(self.configuration(), encoding="utf-8")
        (self.folder / "enabled_plugins").write_text(f"[{','.join(self.plugins)}].\n", encoding="ascii")
        (self.folder / erlang_control.SCRIPT).write_text(erlang_control.script(), encoding="utf-8")

    def configuration(self) -> str:
        """rabbitmq.conf."""
        lines = [f"listeners.tcp.default = 127.0.0.1:{self.port}", "loopback_users.guest = true"]
        if "rabbitmq_management" in self.plugins:
            lines += ["management.tcp.ip = 127.0.0.1", f"management.tcp.port = {self.port + MANAGEMENT}"]
        if "rabbitmq_prometheus" in self.plugins:
            lines += ["prometheus.tcp.ip = 127.0.0.1", f"prometheus.tcp.port = {self.port + PROMETHEUS}"]
        if self.consumer_timeout is not None:
            lines.append(f"consumer_timeout = {round(self.consumer_timeout.total_seconds() * 1000)}")
        return "\n".join([*lines, *self.extra, ""])

    def epmd_environment(self) -> dict[str, str]:
        """Erlang's port mapper, for this node alone."""
        return {"ERL_EPMD_PORT": str(self.port + EPMD), "ERL_EPMD_ADDRESS": "127.0.0.1"}

    def environment(self, installation: RabbitMQInstallation) -> dict[str, str]:
        """The node's whole environment: nothing of ours reaches it, so nothing of ours can change it."""
        folder = self.folder
        return self.epmd_environment() | {
            "PATH": f"{installation.scripts}:{os.environ.get('PATH', os.defpath)}",
            "HOME": str(folder / "home"),
            "LANG": "C.UTF-8",
            "RABBITMQ_NODENAME": self.name,
            "RABBITMQ_DIST_PORT": str(self.port + DISTRIBUTION),
            "RABBITMQ_CONF_ENV_FILE": str(folder / "none"),
            "RABBITMQ_CONFIG_FILE": str(folder / "rabbitmq.conf"),
            "RABBITMQ_CONFIG_FILES": str(folder / "conf.d"),
            "RABBITMQ_ADVANCED_CONFIG_FILE": str(folder / "advanced.config"),
            "RABBITMQ_ENABLED_PLUGINS_FILE": str(folder / "enabled_plugins"),
            "RABBITMQ_MNESIA_BASE": str(folder / "mnesia"),
            "RABBITMQ_LOG_BASE": str(folder / "log"),
            "RABBITMQ_LOGS": "-",
            "RABBITMQ_PID_FILE": str(self.pid_file),
            # The node's working folder is its own, so the name is enough, whatever the folder is called.
            "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": f'-eval file:eval("{erlang_control.SCRIPT}").',
            # The script then becomes the virtual machine and does not wait for it, so it dies with the guard.
            "RABBITMQ_ALLOW_INPUT": "1",
            "RABBITMQ_SERVER_START_ARGS": "-noinput",
        }
