"""The state store of Warrener: `open_store(url)` opens it, `migrate(url)` makes its tables."""

from typing import TYPE_CHECKING, Any

from warrener_store.errors import (
    StoreError,
    StoreNotMigrated,
    StoreRefused,
    StoreUnavailable,
    UnknownJob,
)

if TYPE_CHECKING:
    from warrener_store.store import StateStore, Store, migrate, open_store
else:

    def __getattr__(name: str) -> Any:
        """Import the ports with the first use of one: rows, which pure code reads, need none of them."""
        if name not in __all__:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from warrener_store import store  # noqa: PLC0415 - see above

        found = globals()[name] = getattr(store, name)
        return found


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
