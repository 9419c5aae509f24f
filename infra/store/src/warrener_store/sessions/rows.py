"""Sessions as frozen values. Pure."""

from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionRow:
    """One person who is signed in, by one browser.

    `session_key` is a hash of the session's id, so that a reader of the table cannot take a session over.
    `credential` names what the person signed in with, such as a token's hash or a subject of a provider.
    """

    session_key: str
    actor: str
    role: str
    method: str
    credential: str
    opened_at: datetime
    expires_at: datetime
