"""The state store of Warrener: `open_store(url)` opens it, `migrate(url)` makes its tables."""

from warrener_store.errors import (
    StoreError,
    StoreNotMigrated,
    StoreRefused,
    StoreUnavailable,
    UnknownJob,
)
from warrener_store.store import StateStore, Store, migrate, open_store

__all__ = [
    "StateStore",
    "Store",
    "StoreError",
    "StoreNotMigrated",
    "StoreRefused",
    "StoreUnavailable",
    "UnknownJob",
    "migrate",
    "open_store",
]
