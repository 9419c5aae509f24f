"""The version of the code that an agent serves, as far as its installed package says it."""

import sys
from collections import Counter
from collections.abc import Iterable
from importlib.metadata import PackageNotFoundError, packages_distributions, version

from warrener_agent.definitions.job import JobDefinition

_INSTALLED = ("site-packages", "dist-packages")
_OWN = "warrener_agent"


def find_code_version(definitions: Iterable[JobDefinition]) -> str | None:
    """Return the version of the distribution that holds most of these handlers; None if none is installed."""
    modules = Counter(definition.handler.__module__ for definition in definitions)
    packages = Counter[str]()
    for module, handlers in modules.items():
        packages[module.partition(".")[0]] += handlers
    del packages[_OWN]  # a program's handler is ours
    return next((found for name, _ in packages.most_common() if (found := _package_version(name))), None)


def _package_version(package: str) -> str | None:
    """Return the version of the distribution of a top-level package.

    Most are named alike. The list of all packages takes a tenth of a second to make, so it is read only for
    a module that is certainly installed.
    """
    try:
        return version(package)
    except PackageNotFoundError:
        file = getattr(sys.modules.get(package), "__file__", None) or ""
        if not any(folder in file for folder in _INSTALLED):
            return None
        distributions = packages_distributions().get(package, [])
        return version(distributions[0]) if distributions else None
