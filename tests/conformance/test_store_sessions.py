"""Conformance of the sessions of people who are signed in to the console."""

from dataclasses import replace

from tests.store_rows import NOON, after

from warrener_store import Store
from warrener_store.sessions.rows import SessionRow

ADA = SessionRow(
    session_key="a1",
    actor="ada \x00 \ud800 🐇",
    role="operator",
    method="oidc",
    credential="https://login.example#ada",
    opened_at=NOON,
    expires_at=after(60),
)


async def test_a_session_is_found_by_its_key_until_it_ends(store: Store) -> None:
    grace = replace(ADA, session_key="g1", actor="grace")
    await store.open_session(ADA)
    await store.open_session(grace)
    assert await store.session("a1") == ADA
    await store.end_session("a1")
    await store.end_session("a1")
    assert await store.session("a1") is None
    assert await store.session("g1") == grace
    assert await store.session("\x00") is None


async def test_expired_sessions_go_when_another_is_opened(store: Store) -> None:
    await store.open_session(ADA)
    later = replace(ADA, session_key="a2", opened_at=after(59), expires_at=after(120))
    await store.open_session(later)
    assert await store.session("a1") == ADA
    await store.open_session(replace(ADA, session_key="a3", opened_at=after(60), expires_at=after(120)))
    assert await store.session("a1") is None
    assert await store.session("a2") == later
