"""The state store of Warrener: `open_store(url)` gives it, `migrate(url)` makes its tables."""

from warrener_store.factory import migrate, open_store
from warrener_store.port import (
    StateStore,
    StoreError,
    StoreNotMigrated,
    StoreRefused,
    StoreUnavailable,
    UnknownJob,
)
from warrener_store.store import Store

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
