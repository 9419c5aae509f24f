"""All that services, and the command, import: loaded in the fork server before it is forked."""

import gc
import importlib
import sys
from pathlib import Path

SERVICES = ("warrener_scheduler", "warrener_supervisor", "warrener_agent", "warrener")
_LOADED_LATE = (
    "typer._adapters",
    "typer.rich_utils",
    "uvloop",
    "warrener.command.app",
    "warrener.command.job_page",
    "warrener.explanations",
    "warrener.gathering",
    "warrener.operations.jobs",
    "warrener.settings",
    "warrener.up.run",
    "warrener_agent.ledger.postgres",
    "warrener_agent.ledger.sqlite",
    "warrener_client",
    "warrener_devservers",
    "warrener_runtime.bus.rabbitmq",
    "warrener_runtime.log_output",
    "warrener_runtime.telemetry.otlp",
    "warrener_store.migrations.migrator",
    "warrener_store.postgres",
    "warrener_store.sqlite",
)
"""What they import once they know what they are to do."""

for name in (*(f"{service}.__main__" for service in SERVICES), *_LOADED_LATE):
    importlib.import_module(name)
for service in SERVICES:
    del sys.modules[f"{service}.__main__"]  # each process runs it again, under the name __main__
threads = len(list(Path("/proc/self/task").iterdir()))
assert threads == 1, f"expected one thread before a fork, got {threads}; an import has started one"
gc.collect()
gc.freeze()  # a collection in a forked process need not walk, and so copy, all that was imported here
