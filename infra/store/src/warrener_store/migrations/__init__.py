"""The history of the tables, and the revision that this version of the code needs.

Each step is named `NNNN_pre_…` (safe while the code before it still runs) or `NNNN_post_…` (run once that
code is gone), says what it is for, and can be taken back.
"""

from collections.abc import Sequence
from importlib.resources import files

from warrener_store.databases.failures import MIGRATE
from warrener_store.errors import StoreNotMigrated

_STEPS = files("warrener_store") / "migrations" / "versions"
NEEDED = max(step.name[1:5] for step in _STEPS.iterdir() if "_pre_" in step.name)
"""The revision that this code relies on: the newest step named `pre`. A database that is ahead is accepted:
steps named `pre` are safe under the code before them, those named `post` are taken when that code is gone."""

VERSION_TABLE = "warrener_schema"


def check_version(found: Sequence[str], where: object) -> None:
    """Raise StoreNotMigrated unless the database has the needed revision, or a later one."""
    if not found or max(found) < NEEDED:
        has = max(found, default="nothing")
        raise StoreNotMigrated(f"expected revision {NEEDED} of the tables in {where}, got {has}; {MIGRATE}")
