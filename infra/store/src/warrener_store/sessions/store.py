"""Sessions in both databases. Suite: `tests/conformance/test_store_console.py`."""

from warrener_store.databases.session import SqlSession
from warrener_store.encoding import escape
from warrener_store.mapping import RowMapper
from warrener_store.sessions.rows import SessionRow

SESSIONS = RowMapper(SessionRow)
WORDS = {"session": ", ".join(SESSIONS.columns)}


class SessionStore(SqlSession):
    """Sessions by key. The caller compares `expires_at` with the time."""

    async def open_session(self, row: SessionRow) -> None:
        """Store a session, and delete those that had expired when it was opened."""
        await self._change_together(
            ("delete_expired_sessions", (self.codec.encode_moment(row.opened_at),)),
            ("open_session", SESSIONS.to_row(row, self.codec)),
        )

    async def session(self, session_key: str) -> SessionRow | None:
        """The session of this key, expired or not; None if there is none."""
        found = await self._rows(SESSIONS, "session", escape(session_key))
        return found[0] if found else None

    async def end_session(self, session_key: str) -> None:
        """Delete a session. A repeat changes nothing."""
        await self._change("end_session", escape(session_key))
