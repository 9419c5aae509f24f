"""`make chaos CLUSTER=1`: three brokers behind a balancer, and a standby of the database.

The faults of "the broker" then concern one node, each time another one. The balancer leads new connections to
nodes that answer; those to a frozen node stay where they are, as without a balancer that ends sessions.
"""

import asyncio
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

from tests.faults.tcp_proxy import TcpProxy
from tests.servers.cluster import ClusterNode, RabbitMQCluster
from tests.servers.kinds import PostgresServer
from tests.servers.standby import StandbyPostgres

from warrener_devservers import ServerFailed
from warrener_devservers.rabbitmq import RabbitMQCommands

NOTICED_AFTER = 10
"""net_ticktime: seconds after which nodes notice that one is frozen."""
_REJOINED_WITHIN = 30
"""Seconds after which a node that was frozen has found the others again, or is restarted."""
_COOKIE = "WARRENERTESTCLUSTER"
_SYNCHRONOUS = "ALTER SYSTEM SET synchronous_standby_names = '*'"
_ALONE = "ALTER SYSTEM RESET synchronous_standby_names"


class BrokerCluster(RabbitMQCommands):
    """A cluster as a `RabbitMQServer`."""

    def __init__(self, folder: Path) -> None:
        self._cluster = RabbitMQCluster(folder, net_ticktime=NOTICED_AFTER)
        self._balancer = TcpProxy(self._next_port)
        self._turn = self._led = 0
        self._away: set[int] = set()
        """Numbers of nodes that are frozen or cut off."""

    @property
    def url(self) -> str:
        return f"amqp://guest:guest@127.0.0.1:{self.port}/"

    @property
    def port(self) -> int:
        """The balancer's."""
        return self._balancer.port

    @property
    def running(self) -> bool:
        return bool(self._healthy())

    @asynccontextmanager
    async def balanced(self) -> AsyncGenerator[None]:
        """Start all nodes and the balancer; nothing of them stays behind."""
        try:
            await asyncio.to_thread(self._cluster.start)
            await self._balancer.start()
            yield
        finally:
            await self._balancer.stop()
            await asyncio.to_thread(self.remove)

    def start(self) -> None:
        """Start each node that does not run."""
        for node in self._cluster.nodes:
            node.start()

    def stop(self) -> None:
        """Stop one node in order."""
        self._victim().stop()

    def kill(self) -> None:
        """kill -9 of one node."""
        self._victim().kill()

    def remove(self) -> None:
        """Kill all nodes and delete their folders."""
        self._cluster.remove()

    def restart(self) -> None:
        """Stop one node and start it."""
        self._victim().restart()

    def pause(self) -> None:
        """Freeze one node."""
        self._victim().pause()
        self._away.add(self._turn)

    def resume(self) -> None:
        """Thaw it."""
        for number in self._away:
            self._cluster.nodes[number].resume()
        self._away.clear()

    def restart_parted(self) -> bool:
        """Restart the last victim if the others miss it for half a minute; True if that was needed."""
        victim = self._cluster.nodes[self._turn]
        others = [node for node in self._cluster.nodes if node is not victim]
        until = time.monotonic() + _REJOINED_WITHIN
        while time.monotonic() < until:
            with suppress(ServerFailed):
                if all(victim.name in node.evaluate("rabbit_nodes:all_running()") for node in others):
                    return False
            time.sleep(1)
        victim.kill()
        victim.start()
        return True

    def roll(self) -> None:
        """Restart each node in turn."""
        for node in self._cluster.nodes:
            node.restart()

    def cut_off(self) -> None:
        """Part one node from the others: both sides notice at once."""
        victim = self._victim()
        self._away.add(self._turn)
        victim.evaluate("[begin erlang:set_cookie(N, cut), erlang:disconnect_node(N) end || N <- nodes()]")

    def rejoin(self) -> None:
        """Let it meet the others again."""
        names = ", ".join(f"'{node.name}'" for node in self._cluster.nodes)
        for number in self._away:
            self._cluster.nodes[number].evaluate(f"[erlang:set_cookie(N, '{_COOKIE}') || N <- [{names}]]")
        self._away.clear()

    def evaluate(self, expressions: str) -> str:
        """Evaluate on the first node that can: one that was frozen or cut off may still be rejoining."""
        *others, last = self._healthy()
        for node in others:
            with suppress(ServerFailed):
                return node.evaluate(expressions)
        return last.evaluate(expressions)

    def close_connections(self, reason: str = "closed by the test") -> None:
        for node in self._healthy():
            node.close_connections(reason)

    def settle(self) -> None:
        for node in self._healthy():
            node.settle()

    def _victim(self) -> ClusterNode:
        self._turn = (self._turn + 1) % len(self._cluster.nodes)
        return self._cluster.nodes[self._turn]

    def _healthy(self) -> list[ClusterNode]:
        nodes = enumerate(self._cluster.nodes)
        return [node for number, node in nodes if node.running and number not in self._away]

    def _next_port(self) -> int:
        healthy = self._healthy() or self._cluster.nodes
        self._led += 1
        return healthy[self._led % len(healthy)].port


class Standbys:
    """The standby of a primary; after its promotion the next one."""

    def __init__(self, folder: Path, primary: PostgresServer) -> None:
        self._folder, self._made = folder, 0
        self.primary = primary
        self.standby = self._start()

    def promote(self) -> PostgresServer:
        """Kill the primary, promote its standby and give it a standby of its own; return the new primary."""
        self.primary.kill()
        self.primary, promoted = self.standby, self.standby
        promoted.promote()
        promoted.execute(_ALONE)
        promoted.execute("SELECT pg_reload_conf()")
        self.standby = self._start()
        return promoted

    def remove(self) -> None:
        """Kill both."""
        with suppress(ServerFailed):
            self.standby.remove()
        self.primary.remove()

    def _start(self) -> StandbyPostgres:
        self._made += 1
        standby = StandbyPostgres(self._folder / f"standby-{self._made}", self.primary)
        standby.start()
        # A commit is confirmed when the standby has it: else a promotion loses what was confirmed.
        self.primary.execute(_SYNCHRONOUS)
        self.primary.execute("SELECT pg_reload_conf()")
        return standby
