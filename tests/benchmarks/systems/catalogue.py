"""Every system that can be measured, by name."""

from collections.abc import Mapping
from pathlib import Path

from tests.benchmarks.systems.celery_system import Celery
from tests.benchmarks.systems.dbos_system import Dbos
from tests.benchmarks.systems.dramatiq_system import Dramatiq
from tests.benchmarks.systems.port import PythonSystem, System
from tests.benchmarks.systems.procrastinate_system import Procrastinate
from tests.benchmarks.systems.river_system import River
from tests.benchmarks.systems.taskiq_system import Taskiq
from tests.benchmarks.systems.warrener_system import Warrener

OURS, ALONE, TRACED, FLOOR = "warrener", "warrener-alone", "warrener-traced", "floor"
BEFORE = "warrener-before"
BULK = "warrener:bulk"
"""Requests of ours that nobody takes: no system of its own, but a side of a pair."""
_IN_PYTHON: tuple[PythonSystem, ...] = (Warrener(), Celery(), Dramatiq(), Taskiq(), Procrastinate(), Dbos())
PYTHON_SYSTEMS: Mapping[str, PythonSystem] = {system.name: system for system in _IN_PYTHON}
"""Those that driver.py can request jobs of."""
SYSTEMS: Mapping[str, System] = {**PYTHON_SYSTEMS, River.name: River()}


_ALONE = Warrener(slots=500, per_message=1, variant="-alone")
ALONE_SETTINGS = f"as warrener, one job a message, {_ALONE.slots} slots an agent"


def variants(endpoint: str) -> Mapping[str, Warrener]:
    """Ours in other settings; what is traced is sent to `endpoint`."""
    traced = {"WARRENER_OTLP_ENDPOINT": endpoint, "WARRENER_OTLP_PROTOCOL": "http/protobuf"}
    return {
        ALONE: _ALONE,
        TRACED: Warrener(environment=traced, variant="-traced"),
    }


def before(checkout: Path) -> Warrener:
    """Ours of another commit: a checkout in which `make setup` was run."""
    return Warrener(variant="-before", checkout=checkout)
