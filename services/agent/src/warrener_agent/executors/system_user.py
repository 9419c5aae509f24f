"""The user as whom a process of an attempt runs."""

import os
import pwd
from dataclasses import dataclass


class UserUnavailable(Exception):
    """The job type's user is not to be had here; the message says why."""


@dataclass(frozen=True, slots=True)
class SystemUser:
    """An entry of the machine's users."""

    name: str
    uid: int
    gid: int
    home: str

    @property
    def environment(self) -> dict[str, str]:
        """What a login would set."""
        return {"HOME": self.home, "USER": self.name, "LOGNAME": self.name}


def resolve_user(name: str | None) -> SystemUser | None:
    """The account of `name`; None where none was asked for, or where it is the agent's own.

    Raises AccountError: to go on as the agent's own user would give the handler more than was declared.
    """
    if name is None:
        return None
    try:
        entry = pwd.getpwnam(name)
    except KeyError:
        raise UserUnavailable(f"expected a user {name} on this machine, found none: create it") from None
    if entry.pw_uid == os.geteuid():
        return None
    if os.geteuid() != 0:
        raise UserUnavailable(
            f"expected to be root to run as {name}, the agent runs as user {os.geteuid()}: start the agent "
            f"as root or as {name}, or leave `user` out"
        )
    return SystemUser(name, entry.pw_uid, entry.pw_gid, entry.pw_dir)
