"""The state store of Warrener: `open_store(url)` gives it, `migrate(url)` makes its tables."""

from warrener_store.opening import migrate, open_store
from warrener_store.port import StateStore, StoreError, StoreNotMigrated, StoreRefused, StoreUnavailable

__all__ = [
    "StateStore",
    "StoreError",
    "StoreNotMigrated",
    "StoreRefused",
    "StoreUnavailable",
    "migrate",
    "open_store",
]
