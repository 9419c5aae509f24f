"""Passwords are hidden in every form in which people and programs write them; half of one is never shown."""

import pytest

from warrener_runtime.secrets import cut, mask, shown


@pytest.mark.parametrize(
    ("text", "masked"),
    [
        ("amqp://me:se@cret:x@h1:5672,h2:5672/jobs", "amqp://me:***@h1:5672,h2:5672/jobs"),
        (
            "postgresql://me:a%40b@h1,h2/db?sslpassword=c&a=b",
            "postgresql://me:***@h1,h2/db?sslpassword=***&a=b",
        ),
        ("postgresql:///db?user=me&password=c", "postgresql:///db?user=me&password=***"),
        ("amqp://me:a/b@host/", "amqp://me:***@host/"),
        ("cannot reach amqp://me:secret@h:5672/ now", "cannot reach amqp://me:***@h:5672/ now"),
        ("amqp://me:se@cret@host/", "amqp://me:***@host/"),
        ("amqp://:secret@host/", "amqp://:***@host/"),
        ("amqp://me@host:5672/", "amqp://me@host:5672/"),
        ("12:30 at me@home", "12:30 at me@home"),
        ("http://host:8080/me@home", "http://host:8080/me@home"),
        ("PGPASSWORD=secret psql", "PGPASSWORD=*** psql"),
        ("tool --broker-password secret --fast", "tool --broker-password *** --fast"),
        ("['tool', '--password', 'a b']", "['tool', '--password', '***']"),
        ("password: secret", "password: ***"),
        ("host=h password='a b' user=me", "host=h password='***' user=me"),
        ('{"password": "a\\"b", "user": "me"}', '{"password": "***", "user": "me"}'),
        ('"{\\"password\\": \\"a\\", \\"n\\": 1}"', '"{\\"password\\": \\"***\\", \\"n\\": 1}"'),
        ("the password file is missing", "the password file is missing"),
        ('{"password": null}', '{"password": null}'),
    ],
)
def test_a_password_is_hidden_in_every_form(text: str, masked: str) -> None:
    assert mask(text) == masked


@pytest.mark.parametrize("text", ["x " * 50 + "amqp://me:hunter2@host/", 'password="hunter2 is long"'])
def test_a_cut_text_shows_no_half_of_a_password(text: str) -> None:
    for limit in range(1, len(text)):
        assert "hunt" not in mask(cut(text, limit))


def test_a_long_text_is_shown_with_its_length() -> None:
    assert shown("word " * 10_000) == "word " * 3_999 + "word… [50,000 characters in all]"
