"""Schedulers that are there at once: forked from a process that has read their modules.

To start Python and to read them takes a second of processor time, on a busy machine many seconds. Where one
is killed each second, little else would happen.
"""

import multiprocessing
import os
import sys
from collections.abc import Mapping
from multiprocessing.context import ForkServerProcess
from pathlib import Path

from warrener_scheduler.__main__ import main

_CONTEXT = multiprocessing.get_context("forkserver")
_CONTEXT.set_forkserver_preload(
    [__name__, "uvloop", "warrener_runtime.bus.rabbitmq.lean", "warrener_store.postgres"]
)


def fork_scheduler(settings: Mapping[str, str], log: Path) -> ForkServerProcess:
    """A scheduler with these settings as its environment, in a process of its own; returns at once."""
    process = _CONTEXT.Process(target=_serve, args=(dict(settings), log), daemon=True)
    process.start()
    return process


def _serve(settings: Mapping[str, str], log: Path) -> None:
    with log.open("ab") as out:
        for standard in (sys.stdout, sys.stderr):
            os.dup2(out.fileno(), standard.fileno())
    os.environ.update(settings)
    sys.exit(main())
