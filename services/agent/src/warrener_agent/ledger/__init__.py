"""Where attempts are claimed and their completions recorded; `open_ledger` chooses by the URL."""

from warrener_agent.ledger.checkpoints import Saved
from warrener_agent.ledger.opening import open_ledger
from warrener_agent.ledger.port import (
    Claim,
    Completion,
    Failure,
    FollowUp,
    Forgotten,
    Grant,
    Granted,
    Ledger,
    LedgerError,
    LedgerUnavailable,
    OpenTransaction,
    Transaction,
)

__all__ = [
    "Claim",
    "Completion",
    "Failure",
    "FollowUp",
    "Forgotten",
    "Grant",
    "Granted",
    "Ledger",
    "LedgerError",
    "LedgerUnavailable",
    "OpenTransaction",
    "Saved",
    "Transaction",
    "open_ledger",
]
