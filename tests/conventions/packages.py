"""The packages of others that come with a wheel, and how many may."""

import tomllib
from importlib.metadata import requires

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from tools.house import wheels

BUDGETS = {
    "warrener-contracts": 5,
    "warrener-calendar": 7,
    "warrener-amqp": 1,
    "warrener-client": 11,
    "warrener-agent": 12,
    "warrener-store": 15,
    "warrener-scheduler": 28,
    "warrener-supervisor": 36,
    "warrener": 32,
}
"""The most packages of others that each wheel installs without its extras. Client and agent are installed
beside the code of users, whose packages may need other versions."""


def packages_of(member: str) -> set[str]:
    """Find the packages of others that the wheel of `member` installs here without its extras."""
    members = _members()
    pending, seen = [Requirement(member)], set[tuple[str, str]]()
    while pending:
        wanted = pending.pop()
        for extra in ("", *wanted.extras):
            if (key := (canonicalize_name(wanted.name), canonicalize_name(extra))) not in seen:
                seen.add(key)
                pending += _needed(*key, members)
    return {name for name, _ in seen if name not in members}


def _needed(name: str, extra: str, members: dict[str, list[str]]) -> list[Requirement]:
    lines = members[name] if name in members else requires(name) or []
    wanted = [Requirement(line) for line in lines]
    if not extra:
        return [one for one in wanted if one.marker is None or one.marker.evaluate({"extra": ""})]
    return [
        one
        for one in wanted
        if one.marker is not None
        and one.marker.evaluate({"extra": extra})
        and not one.marker.evaluate({"extra": ""})
    ]


def _members() -> dict[str, list[str]]:
    """Read what the members of the workspace require, in the form that a wheel has it."""
    found: dict[str, list[str]] = {}
    for wheel in wheels():
        project = tomllib.loads((wheel.folder / "pyproject.toml").read_text(encoding="utf-8"))["project"]
        lines = list[str](project["dependencies"])
        for extra, wanted in project.get("optional-dependencies", {}).items():
            lines += [_in_extra(line, extra) for line in wanted]
        found[canonicalize_name(wheel.name)] = lines
    return found


def _in_extra(line: str, extra: str) -> str:
    text, _, marker = line.partition(";")
    condition = f"extra == '{extra}'"
    return f"{text.strip()} ; {f'({marker.strip()}) and ' if marker else ''}{condition}"
