"""`warrener-supervisor`, or `python -m warrener_supervisor`."""

# ruff: noqa: E402 - a collection in the midst of the imports would find nothing, and take a seventh of their time
import gc

gc.disable()

import sys

from warrener_runtime.lifecycle import gc_tuning
from warrener_runtime.lifecycle.run import main as serve
from warrener_supervisor.settings import SupervisorSettings
from warrener_supervisor.wiring import NAME, REFUSALS, production

gc.enable()


def main() -> int:
    """Serve until a signal ends the process; return the exit code."""
    return serve(NAME, SupervisorSettings, production, gc_thresholds=gc_tuning.RARE, refusals=REFUSALS)


if __name__ == "__main__":
    sys.exit(main())
