"""All kinds of faults: importing this module fills the registry."""

from tools.chaos.faults import broker, clocks, cluster, database, load, services, topology, workflows
from tools.chaos.faults.registry import KINDS, Kind
from tools.chaos.system import FAKETIME

__all__ = [
    "available",
    "broker",
    "clocks",
    "cluster",
    "database",
    "load",
    "services",
    "topology",
    "workflows",
]


def available(*, short: bool = False, only: str = "", without: str = "", cluster: bool = False) -> list[Kind]:
    """The kinds that this machine can bring about, in a fixed order; `only`, `without`: parts of names."""
    chosen = [kind for kind in KINDS.values() if FAKETIME or not kind.needs_faketime]
    chosen = [kind for kind in chosen if cluster or not kind.needs_cluster]
    if short and not only:  # kinds that are named are all brought about
        chosen = [kind for kind in chosen if kind.in_short_form]
    if only:
        chosen = [kind for kind in chosen if any(part in kind.name for part in only.split(","))]
    if without:
        chosen = [kind for kind in chosen if not any(part in kind.name for part in without.split(","))]
    return chosen
