"""Becoming a service: the command's process is replaced by the service's."""

import os
import sys
from collections.abc import Sequence
from importlib.util import find_spec

from warrener.exits import Exit
from warrener.places import find_places
from warrener.running import fail


def become(service: str, arguments: Sequence[str], *, part: str = "") -> None:
    """Run `python -m warrener_<service> ARGUMENTS` in this process; where `up` runs in this folder, it joins
    that.

    Says what to install if the service is not here. Never returns. `part` is a module of the service that is
    run instead of it.
    """
    module = f"warrener_{service}"
    if find_spec(module) is None:
        fail(
            f"expected the {service} to be installed, got no module {module}",
            f"pip install warrener-{service}",
            Exit.FAILED,
        )
    places = find_places()
    environment = {**os.environ, **(places.environment() if places.of_up else {})}
    os.execve(sys.executable, [sys.executable, "-m", f"{module}{part}", *arguments], environment)  # noqa: S606 - our own service
