"""Where RabbitMQ is on this machine."""

import os
import shutil
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from warrener_runtime.servers.errors import ServerMissing

# The scripts themselves: the wrappers on PATH change to the user rabbitmq, and refuse whoever is not root.
_DEBIAN = "/usr/lib/rabbitmq/bin"
_OTHERS = (
    "/opt/rabbitmq/sbin",
    "/usr/local/sbin",
    "/opt/homebrew/opt/rabbitmq/sbin",
    "/usr/local/opt/rabbitmq/sbin",
)


@dataclass(frozen=True, slots=True)
class RabbitMQInstallation:
    """The programs of one RabbitMQ. `prefix` goes before the server's command (another root folder, say)."""

    scripts: str = _DEBIAN
    epmd: str = "epmd"
    prefix: Sequence[str] = field(default=())

    @classmethod
    def of_this_machine(cls) -> "RabbitMQInstallation":
        """The one that is installed; `WARRENER_RABBITMQ_SCRIPTS` names the folder if it is elsewhere."""
        named = os.environ.get("WARRENER_RABBITMQ_SCRIPTS")
        candidates = (named,) if named else (_DEBIAN, *_OTHERS)
        for folder in candidates:
            if (Path(folder) / "rabbitmq-server").exists():
                return cls(scripts=folder, epmd=_epmd())
        raise ServerMissing(
            f"expected rabbitmq-server in {' or '.join(candidates)}, got none; "
            "install it (Debian, Ubuntu: apt-get install rabbitmq-server) or set WARRENER_RABBITMQ_SCRIPTS "
            "to the folder that has it"
        )

    @property
    def server(self) -> list[str]:
        """The command that runs the server in the foreground."""
        return [*self.prefix, f"{self.scripts}/rabbitmq-server"]


def _epmd() -> str:
    """Erlang's port mapper; some packages keep it beside the virtual machine, and not on PATH."""
    if found := shutil.which("epmd"):
        return found
    for found_path in sorted(Path("/usr/lib/erlang").glob("erts-*/bin/epmd")):
        return str(found_path)
    raise ServerMissing(
        "expected Erlang's epmd, got none; install it (Debian, Ubuntu: apt-get install erlang-base)"
    )
