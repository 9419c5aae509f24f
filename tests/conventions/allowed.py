"""The exceptions that stood when a rule came, in `allowed.toml`: the lists only shrink."""

import tomllib
from collections.abc import Iterable

from tests.conventions.sources import ROOT

_PATH = ROOT / "tests" / "conventions" / "allowed.toml"


def check(rule: str, found: Iterable[str], do: str) -> None:
    """Fail for what a rule finds beyond its list, and for entries of the list that it no longer finds."""
    allowed = set(tomllib.loads(_PATH.read_text(encoding="utf-8"))[rule])
    seen = set(found)
    new, stale = sorted(seen - allowed), sorted(allowed - seen)
    assert not new, f"expected none, got these; {do}:\n  " + "\n  ".join(new)
    assert not stale, f"expected exceptions that exist; remove these from {_PATH.name}:\n  " + "\n  ".join(
        stale
    )
