"""Where attempts are claimed and their completions recorded; `open_ledger` chooses by the URL."""

from warrener_agent.ledger.checkpoints import SavedCheckpoint
from warrener_agent.ledger.factory import open_ledger
from warrener_agent.ledger.port import (
    Claim,
    ClaimResult,
    ClaimStatus,
    Completion,
    DeletedRows,
    Failure,
    FollowUp,
    Ledger,
    LedgerError,
    LedgerUnavailable,
    OpenTransaction,
    Renewal,
    Transaction,
)

__all__ = [
    "Claim",
    "ClaimResult",
    "ClaimStatus",
    "Completion",
    "DeletedRows",
    "Failure",
    "FollowUp",
    "Ledger",
    "LedgerError",
    "LedgerUnavailable",
    "OpenTransaction",
    "Renewal",
    "SavedCheckpoint",
    "Transaction",
    "open_ledger",
]
