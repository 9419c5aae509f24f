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
    Renewal,
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
    "Renewal",
    "Saved",
    "Transaction",
    "open_ledger",
]
