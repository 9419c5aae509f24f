"""Roles and principals. Pure."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Literal


class Role(StrEnum):
    """A set of rights; each role has those of the roles before it."""

    VIEWER = "viewer"
    OPERATOR = "operator"
    ADMIN = "admin"

    def allows(self, other: "Role") -> bool:
        """True if this role has the rights of `other`."""
        ranks = list(Role)
        return ranks.index(self) >= ranks.index(other)


@dataclass(frozen=True, slots=True)
class Principal:
    """The person or program that a request comes from."""

    name: str
    role: Role
    method: Literal["open", "token", "oidc"]
