"""The state store of Warrener: `open_store(url)` opens it, `migrate(url)` makes its tables."""

from typing import TYPE_CHECKING, Any

from warrener_store.errors import StoreError, StoreNotMigrated, StoreRefused, StoreUnavailable, UnknownJob

if TYPE_CHECKING:
    from warrener_store.opening import migrate, open_store
    from warrener_store.store import StateStore, Store
else:

    def __getattr__(name: str) -> Any:
        """Import the store with its first use: rows, which pure code reads, need nothing of it."""
        if name not in __all__:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from importlib import import_module  # noqa: PLC0415 - see above

        home = "store" if name in {"StateStore", "Store"} else "opening"
        found = globals()[name] = getattr(import_module(f"warrener_store.{home}"), name)
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
