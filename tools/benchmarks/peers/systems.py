"""Each system of the contest: what runs for it, and what is killed as its worker."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from tools.benchmarks.place import Place
from tools.benchmarks.systems.celery_system import Celery
from tools.benchmarks.systems.port import Command
from tools.benchmarks.systems.warrener_system import Warrener

_APPS = "tools.benchmarks.peers"


@dataclass(frozen=True, slots=True)
class Peer:
    """`steady` runs on when `workers` are killed and started again."""

    name: str
    settings: str
    driver: Command
    workers: Sequence[Command]
    steady: Sequence[Command] = ()
    has_steps: bool = True


def warrener(place: Place, *, killed: str = "agents") -> Peer:
    """Ours: `killed` names the service that counts as its worker."""
    system = Warrener()
    system.prepare(place)
    module = f"{_APPS}.warrener_flows"
    commands = [
        replace(one, arguments=(*one.arguments[:-1], module)) if one.part == "agents" else one
        for one in system.workers(place, 1)
    ]
    return Peer(
        "warrener" if killed == "agents" else f"warrener, its {killed} killed",
        "1 scheduler, 1 supervisor, 1 agent of 125 slots; PostgreSQL, quorum queues; flow.map, 500 in flight",
        Command(("-m", module, "drive")),
        [one for one in commands if one.part == killed],
        [one for one in commands if one.part != killed],
    )


def celery(place: Place, redis: str | None = None) -> Peer:
    """A chord whose members are counted by a task that looks each second (results in PostgreSQL), or by a
    counter in Redis."""
    environment = {"BENCH_REDIS_URL": redis} if redis else {}
    app = f"{_APPS}.celery_canvas"
    [worker] = Celery().workers(place, 2)
    arguments = tuple(app if word.endswith("celery_app") else word for word in worker.arguments)
    return Peer(
        "Celery, results in Redis" if redis else "Celery, results in PostgreSQL",
        "1 worker of 2 processes; quorum queue, acks_late, reject_on_worker_lost, confirm_publish; "
        + ("Redis with appendonly" if redis else "chord_unlock each second, as it does"),
        Command(("-m", app, "drive"), environment),
        [replace(worker, arguments=arguments, environment=environment)],
        has_steps=False,
    )


def dbos(place: Place) -> Peer:
    """Workflows on a queue in PostgreSQL."""
    app = f"{_APPS}.dbos_flows"
    return Peer(
        "DBOS",
        "2 executors; a queue polled every 50 ms, so are results; PostgreSQL",
        Command(("-m", app, "drive")),
        [Command(("-m", app, "work"), {"DBOS__VMID": f"executor-{number}"}) for number in range(2)],
    )


def temporal(place: Place, address: str) -> Peer:
    """Activities, counted by the history of the workflow."""
    app, environment = f"{_APPS}.temporal_flows", {"BENCH_TEMPORAL": address}
    return Peer(
        "Temporal",
        "its server in one process, 4 history shards, on PostgreSQL; 1 worker of Python; activities",
        Command(("-m", app, "drive"), environment),
        [Command(("-m", app, "work"), environment)],
    )
