"""`warrener-supervisor`, or `python -m warrener_supervisor`."""

import sys

from warrener_runtime.lifecycle import look_for_garbage_seldom
from warrener_runtime.lifecycle import main as serve
from warrener_supervisor.settings import SupervisorSettings
from warrener_supervisor.wiring import NAME, production


def main() -> int:
    """Serve until told to end; the exit code."""
    look_for_garbage_seldom()
    return serve(NAME, SupervisorSettings, production)


if __name__ == "__main__":
    sys.exit(main())
