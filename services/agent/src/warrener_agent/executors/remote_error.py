"""An error that happened at the agent, raised again in the child, so that a handler may catch it by its
class."""

import importlib

from warrener_agent.ledger.port import LedgerError


def rebuild_error(module: str, qualname: str, message: str) -> Exception:
    """The same class with the same message; LedgerError where that class cannot be made from a message."""
    try:
        kind: object = getattr(importlib.import_module(module), qualname)
        if isinstance(kind, type) and issubclass(kind, Exception):
            return kind(message)
    except Exception:  # noqa: BLE001 - constructors of foreign exceptions may do anything
        return LedgerError(f"{qualname}: {message}")
    return LedgerError(f"{qualname}: {message}")
