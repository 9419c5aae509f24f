"""Which schema this version of the code needs, and whether the database has it."""

from collections.abc import Sequence

from warrener_store.failures import MIGRATE
from warrener_store.port import StoreNotMigrated

NEEDED = "0016"
"""The revision of the newest migration that this code relies on. A database that is ahead is welcome: steps
named `pre` are safe under the code before them, those named `post` are taken when that code is gone."""

VERSION_TABLE = "warrener_schema"


def check_version(found: Sequence[str], where: object) -> None:
    """Raise StoreNotMigrated unless the database has the needed revision, or a later one."""
    if not found or max(found) < NEEDED:
        has = max(found, default="nothing")
        raise StoreNotMigrated(f"expected revision {NEEDED} of the tables in {where}, got {has}; {MIGRATE}")
