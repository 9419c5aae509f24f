"""Every system that can be measured, by name."""

from base64 import b64encode
from collections.abc import Mapping
from os import urandom
from pathlib import Path

from tools.benchmarks.systems.celery_system import Celery
from tools.benchmarks.systems.dbos_system import Dbos
from tools.benchmarks.systems.dramatiq_system import Dramatiq
from tools.benchmarks.systems.port import PythonSystem, System
from tools.benchmarks.systems.procrastinate_system import Procrastinate
from tools.benchmarks.systems.river_system import River
from tools.benchmarks.systems.taskiq_system import Taskiq
from tools.benchmarks.systems.warrener_system import Warrener

from warrener_runtime.encryption import make_signing_key
from warrener_runtime.keys import ENCRYPTION_KEYS, SIGNING_KEY

OURS, ALONE, TRACED, FLOOR = "warrener", "warrener-alone", "warrener-traced", "floor"
UNMETERED, ENCRYPTED, SIGNED = "warrener-unmetered", "warrener-encrypted", "warrener-signed"
BEFORE, BEFORE_TRACED = "warrener-before", "warrener-traced-before"
BULK = "warrener:bulk"
"""Requests of ours that nobody takes: no system of its own, but a side of a pair."""
_IN_PYTHON: tuple[PythonSystem, ...] = (Warrener(), Celery(), Dramatiq(), Taskiq(), Procrastinate(), Dbos())
PYTHON_SYSTEMS: Mapping[str, PythonSystem] = {system.name: system for system in _IN_PYTHON}
"""Those that driver.py can request jobs of."""
SYSTEMS: Mapping[str, System] = {**PYTHON_SYSTEMS, River.name: River()}


_ALONE = Warrener(slots=500, dispatch_batch=1, variant="-alone")
ALONE_SETTINGS = f"as warrener, one job a message, {_ALONE.slots} slots an agent"


def variants(endpoint: str, folder: Path) -> Mapping[str, Warrener]:
    """Ours in other settings; traces are sent to `endpoint`, keys are made in `folder`."""
    secret, public = make_signing_key()
    lines = {
        ENCRYPTION_KEYS: f'bench = "{b64encode(urandom(32)).decode()}"',
        SIGNING_KEY: f'bench = "{secret}"',
        "WARRENER_SCHEDULER_REQUEST_KEYS_FILE": f'bench = {{public = "{public}", job_types = ["*"]}}',
    }
    files = {name: str(folder / name) for name in lines}
    for name, line in lines.items():
        (folder / name).write_text(line)
        (folder / name).chmod(0o600)
    encrypts = {ENCRYPTION_KEYS: files.pop(ENCRYPTION_KEYS)}
    return {
        ALONE: _ALONE,
        TRACED: Warrener(environment=_traced(endpoint), variant="-traced"),
        UNMETERED: Warrener(environment={"OTEL_METRICS_EXPORTER": "none"}, variant="-unmetered"),
        ENCRYPTED: Warrener(environment=encrypts, variant="-encrypted"),
        SIGNED: Warrener(environment=files, variant="-signed"),
    }


def before(checkout: Path, endpoint: str) -> Mapping[str, Warrener]:
    """Ours of another commit: a checkout in which `make setup` was run."""
    return {
        BEFORE: Warrener(variant="-before", checkout=checkout),
        BEFORE_TRACED: Warrener(environment=_traced(endpoint), variant="-traced-before", checkout=checkout),
    }


def _traced(endpoint: str) -> dict[str, str]:
    return {"WARRENER_OTLP_ENDPOINT": endpoint, "WARRENER_OTLP_PROTOCOL": "http/protobuf"}
