"""Becoming a service: the command's process is replaced by the service's."""

import os
import sys
from collections.abc import Sequence
from importlib.util import find_spec

from warrener.command_runner import exit_with_error
from warrener.endpoints import resolve_endpoints
from warrener.errors import ExitCode


def exec_service(service: str, arguments: Sequence[str], *, submodule: str = "") -> None:
    """Run `python -m warrener_<service> ARGUMENTS` in this process; where `up` runs in this folder, it joins
    that.

    Says what to install if the service is not here. Never returns. `submodule` is a module of the service
    that is run instead of it.
    """
    module = f"warrener_{service}"
    if find_spec(module) is None:
        exit_with_error(
            f"expected the {service} to be installed, got no module {module}",
            f"pip install warrener-{service}",
            ExitCode.FAILED,
        )
    endpoints = resolve_endpoints()
    environment = {**os.environ, **(endpoints.environment() if endpoints.from_up else {})}
    os.execve(sys.executable, [sys.executable, "-m", f"{module}{submodule}", *arguments], environment)  # noqa: S606 - our own service
