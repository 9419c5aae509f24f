"""Three RabbitMQ nodes that are one cluster: child processes that share a port mapper and a cookie.

Quorum queues declared in it have a replica on each node. A node can be killed, paused and started again
with its data; the port mapper and the other nodes go on. About 160 MiB a node, and 15 s for a start.
"""

import signal
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from warrener_devservers.process import GuardedProcess, GuardSpec, free_block
from warrener_devservers.rabbitmq import EPMD, OFFSETS, NodeFiles, PrivateRabbitMQ, RabbitMQInstallation

_COOKIE = "WARRENERTESTCLUSTER"
_NOTICED_AFTER = 60  # seconds; RabbitMQ's default
_WITHIN = 90.0


@dataclass(frozen=True, slots=True)
class MemberFiles(NodeFiles):
    """The files of one member."""

    node: str = ""
    epmd_port: int = 0

    @property
    def name(self) -> str:
        return self.node

    def write(self) -> None:
        """Write the folder's files, with the cookie that all members share."""
        self.cookie.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not self.cookie.exists():
            self.cookie.write_text(_COOKIE, encoding="ascii")
            self.cookie.chmod(0o400)
        # Not super(): a class with slots is another one than its methods know.
        NodeFiles.write(self)

    def epmd_environment(self) -> dict[str, str]:
        return {"ERL_EPMD_PORT": str(self.epmd_port), "ERL_EPMD_ADDRESS": "127.0.0.1"}


class ClusterNode(PrivateRabbitMQ):
    """One member: a private node without a port mapper of its own."""

    def __init__(
        self, folder: Path, name: str, epmd_port: int, plugins: Sequence[str], net_ticktime: int
    ) -> None:
        self._net_ticktime = net_ticktime
        super().__init__(folder, plugins=plugins)
        self.name = name
        port = self._files.port
        configuration = ("cluster_partition_handling = pause_minority",)
        self._files = MemberFiles(
            folder, port, tuple(plugins), extra=configuration, node=name, epmd_port=epmd_port
        )
        self._spec = self._guard_spec()

    def join(self, other: str) -> None:
        """Become a member of the cluster of another node, and forget what is here."""
        self.evaluate(
            f"rabbit:stop(), ok = case erlang:module_loaded(rabbit_db_cluster) of "
            f"true -> rabbit_db_cluster:join('{other}', disc); "
            f"false -> rabbit_mnesia:join_cluster('{other}', disc) end, ok = rabbit:start()"
        )

    def _guard_spec(self) -> GuardSpec:
        spec = super()._guard_spec()
        environment = dict(spec.environment)
        arguments = environment["RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS"]
        environment["RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS"] = (
            f"-kernel net_ticktime {self._net_ticktime} {arguments}"
        )
        return GuardSpec(spec.commands[-1:], environment, spec.folder, spec.log)


class RabbitMQCluster:
    """Nodes `n1@localhost` and so on.

    `net_ticktime`: seconds after which the nodes notice that one of them is paused. One that is paused for
    longer takes itself for cut off, and serves no clients until it has met the others again. `plugins` are
    those of every node.
    """

    def __init__(
        self, folder: Path, size: int = 3, *, plugins: Sequence[str] = (), net_ticktime: int = _NOTICED_AFTER
    ) -> None:
        self._folder = folder
        epmd = free_block(OFFSETS) + EPMD
        installation = RabbitMQInstallation.of_this_machine()
        self._epmd = GuardedProcess(
            "the cluster's port mapper",
            GuardSpec(
                [[installation.epmd, "-port", str(epmd), "-address", "127.0.0.1"]],
                {"PATH": "/usr/bin:/bin"},
                str(folder),
                str(folder / "epmd.log"),
            ),
        )
        self.nodes = [
            ClusterNode(folder / f"n{number}", f"n{number}@localhost", epmd, plugins, net_ticktime)
            for number in range(1, size + 1)
        ]

    @property
    def url(self) -> str:
        """One URL with the addresses of all nodes."""
        hosts = ",".join(f"127.0.0.1:{node.port}" for node in self.nodes)
        return f"amqp://guest:guest@{hosts}/"

    def start(self, *, joined: int | None = None) -> None:
        """Start every node, and join the first `joined` (None: all) to one cluster."""
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._epmd.launch(lambda: True, _WITHIN)
        for node in self.nodes:
            node.start()
        for number in range(1, len(self.nodes) if joined is None else joined):
            self.join(number)

    def join(self, number: int) -> None:
        """Make a node a member of the first node's cluster; what it held is gone."""
        self.nodes[number].join(self.nodes[0].name)

    def remove(self) -> None:
        """SIGKILL every node and delete their folders."""
        for node in self.nodes:
            node.remove()
        self._epmd.end(signal.SIGKILL, _WITHIN)
