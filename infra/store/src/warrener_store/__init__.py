"""The state store of Warrener: `open_store(url)` gives it, `migrate(url)` makes its tables."""

from warrener_store.opening import migrate, open_store
from warrener_store.port import (
    StateStore,
    StoreError,
    StoreNotMigrated,
    StoreRefused,
    StoreUnavailable,
    UnknownJob,
)

__all__ = [
    "StateStore",
    "StoreError",
    "StoreNotMigrated",
    "StoreRefused",
    "StoreUnavailable",
    "UnknownJob",
    "migrate",
    "open_store",
]
