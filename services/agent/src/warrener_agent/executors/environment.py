"""Which of the agent's environment variables a process of an attempt gets to see. Pure."""

import re
from collections.abc import Collection, Mapping

_NAMES = re.compile(
    r"PASSWORD|PASSWD|PASSPHRASE|SECRET|CREDENTIAL|TOKENS?(?:_|\d|$)"
    r"|(?:API|ACCESS|AUTH|ACCOUNT|SIGNING|MASTER|PRIVATE)_?KEY"
    r"|(?:^|_)(?:PWD|PASS|KEY|AUTH|DSN|PAT)$",
    re.IGNORECASE,
)
_HARMLESS = frozenset({"PWD", "OLDPWD"})  # folders
_URL_WITH_PASSWORD = re.compile(r"://[^/@\s]*:[^/@\s]+@")


def filter_environment(environment: Mapping[str, str], named: Collection[str]) -> dict[str, str]:
    """What is no secret by its name or its value, and what was asked for by name."""
    return {
        name: value for name, value in environment.items() if name in named or not _looks_secret(name, value)
    }


def _looks_secret(name: str, value: str) -> bool:
    if _URL_WITH_PASSWORD.search(value):
        return True
    return name not in _HARMLESS and _NAMES.search(name) is not None
