"""Secrets in documents and texts of others are hidden, and nothing else is."""

import json
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from warrener.operations.masking import Masker
from warrener_contracts.marks import WHOLE
from warrener_runtime.secrets import HIDDEN

MASKER = Masker()
SECRET = (
    "password",
    "PASSWORD",
    "db_password",
    "dbPassword",
    "passwords",
    "X-Api-Key",
    "apiKey2",
    "APIKey",
    "access_token",
    "refreshTokens",
    "Authorization",
    "card",
    "creditCard",
    "card_number",
    "client-secret",
    "Set-Cookie",
)
HARMLESS = ("discard", "cardinality", "secretary", "idempotency_key", "tokenizer", "keyboard")


@pytest.mark.parametrize("name", SECRET)
def test_names_of_secrets_are_known_in_any_case(name: str) -> None:
    for value in ("s3cret", 4111, {"deep": ["x"]}):
        assert MASKER.value({name: value}) == {name: HIDDEN}
    assert MASKER.value({name: None}) == {name: None}


@pytest.mark.parametrize("name", HARMLESS)
def test_names_that_only_resemble_one_are_shown(name: str) -> None:
    assert MASKER.value({name: "x"}) == {name: "x"}


class Login(BaseModel):
    name: str
    password: str


@dataclass
class Row:
    login: Login
    api_key: str


def test_documents_models_and_rows_are_masked_at_any_depth_and_stay_documents() -> None:
    plain = {"count": 3, "ok": True, "none": None}
    document = {
        "user": {"name": "ada", "auth": [{"token": "t"}, ["Authorization", "Bearer abcdefgh"]]},
        "headers": [{"name": "Cookie", "value": "id=1"}, {"key": "Accept", "value": "*/*"}],
        "url": "amqp://guest:hunter2@broker/",
        "row": Row(Login(name="ada", password="x"), "k"),
    }
    assert MASKER.value(document | plain) == plain | {
        "user": {"name": "ada", "auth": [{"token": HIDDEN}, ["Authorization", HIDDEN]]},
        "headers": [{"name": "Cookie", "value": HIDDEN}, {"key": "Accept", "value": "*/*"}],
        "url": f"amqp://guest:{HIDDEN}@broker/",
        "row": {"login": {"name": "ada", "password": HIDDEN}, "api_key": HIDDEN},
    }


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("password=hunter2 failed", f"password={HIDDEN} failed"),
        ("password: hunter2, user: ada", f"password: {HIDDEN}, user: ada"),
        ('{"token": "abc", "user": "ada"}', f'{{"token": "{HIDDEN}", "user": "ada"}}'),
        ("{'db_password': 'a b\\' c', 'n': 1}", f"{{'db_password': '{HIDDEN}', 'n': 1}}"),
        ("GET /x?access_token=abc&page=2", f"GET /x?access_token={HIDDEN}&page=2"),
        ("Authorization: Bearer eyJhbGciOi.x.y", f"Authorization: {HIDDEN}"),
        ("sent Bearer eyJhbGciOiJIUzI1NiJ9 to it", f"sent Bearer {HIDDEN} to it"),
        ("postgresql://app:pw@db/x", f"postgresql://app:{HIDDEN}@db/x"),
        ("login(user='ada', password='x')", f"login(user='ada', password='{HIDDEN}')"),
        ("ValueError: card=4111", f"ValueError: card={HIDDEN}"),
        ("no:card=4111 it", f"no:card={HIDDEN} it"),
        ("the password is wrong", "the password is wrong"),
        ("total=3, discard=4", "total=3, discard=4"),
        ("password=None", "password=None"),
        ('{"data":{"token":"eyJhbGci', f'{{"data":{{"token":"{HIDDEN}"'),
        ("login(user='ada', password='it\\", f"login(user='ada', password='{HIDDEN}'"),
        ('password="one\nline", user=ada', f'password="{HIDDEN}"\nline", user=ada'),
    ],
)
def test_named_values_in_texts_are_hidden(text: str, shown: str) -> None:
    assert MASKER.text(text) == shown


def test_what_a_schema_hides_as_a_whole_is_hidden_where_the_job_type_is_unknown() -> None:
    masker = Masker()
    masker.learn({"bank.show": frozenset({WHOLE}), "bank.pay": frozenset({"pin"})})
    body = '{"data":{"job_type":"bank.show","arguments":{"x":"s3cret"},"result":"s3cret","pin":7}}'
    for text in (body, body[:60]):
        assert "s3cret" not in masker.every.body(text)
    assert '"pin": "***"' in masker.every.body(body)
    assert "s3cret" in masker.of("bank.pay").body(body), "its own schema hides a field alone"


def test_a_body_with_half_a_surrogate_pair_can_be_encoded() -> None:
    body = MASKER.body(r'{"password": "x", "a": "\ud800"}')
    assert json.loads(body.encode()) == {"password": HIDDEN, "a": "\ud800"}


def test_patterns_are_settings() -> None:
    shown = {"password": "shown", "pinned": True}
    masked = Masker(["pin", "internal_*"]).value({"pin": 1, "internal_note": "x", **shown})
    assert masked == {"pin": HIDDEN, "internal_note": HIDDEN, **shown}
    assert Masker([]).value(shown) == shown


def test_hostile_documents_and_texts_end_soon() -> None:
    deep: Any = "end"
    for _ in range(500):
        deep = {"a": deep}
    assert json.dumps(MASKER.value(deep)).count(HIDDEN) == 1
    parts = {"a": 100_000, "password=": 20_000, "=": 100_000, '"': 100_000, "a:": 50_000, "'\\": 50_000}
    for part, times in parts.items():
        assert isinstance(MASKER.text(part * times), str)


DOCUMENTS: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text() | st.just("password"), inner),
    max_leaves=20,
)


@given(DOCUMENTS)
def test_a_masked_document_masks_to_itself(document: Any) -> None:
    once = MASKER.value(document)
    assert MASKER.value(once) == once
