"""Signatures, sealed documents, and the secret they are made with."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from warrener.errors import CommandError
from warrener.web.access.signing import Signer, read_secret

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
SIGNER = Signer(b"x" * 32)


def test_a_sealed_document_comes_back_until_it_expires() -> None:
    sealed = SIGNER.seal("form", {"browser": "b", "é": 1}, NOW)
    assert SIGNER.unseal("form", sealed, NOW - timedelta(seconds=1)) == {"browser": "b", "é": 1}
    assert SIGNER.unseal("form", sealed, NOW) is None


def test_what_was_not_sealed_for_this_purpose_is_none() -> None:
    sealed = SIGNER.seal("form", {"browser": "b"}, NOW)
    before = NOW - timedelta(seconds=1)
    text, _, signature = sealed.partition(".")
    other = Signer(b"y" * 32).seal("form", {"browser": "b"}, NOW)
    for forged in (
        "",
        ".",
        text,
        f"{text}.",
        f".{signature}",
        f"{text}x.{signature}",
        other,
        "é.é",
        "x" * 9000,
    ):
        assert SIGNER.unseal("form", forged, before) is None
    assert SIGNER.unseal("another", sealed, before) is None
    odd = "!!!"
    assert SIGNER.unseal("form", f"{odd}.{SIGNER.sign('form', odd)}", before) is None


def test_a_secret_is_made_once_for_its_owner(tmp_path: Path) -> None:
    file = tmp_path / "new" / "console.secret"
    made = read_secret(None, file)
    assert len(made) >= 32
    assert file.stat().st_mode & 0o777 == 0o600
    assert read_secret(None, file) == made
    assert [each.name for each in file.parent.iterdir()] == ["console.secret"]
    assert read_secret("g" * 32, file) == b"g" * 32


def test_a_secret_that_others_know_or_guess_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "console.secret"
    read_secret(None, file)
    file.chmod(0o644)
    with pytest.raises(CommandError, match="readable by its owner alone, got mode 0644"):
        read_secret(None, file)
    file.write_text("short")
    file.chmod(0o600)
    with pytest.raises(CommandError, match="expected a secret of at least 32 bytes"):
        read_secret(None, file)
    with pytest.raises(CommandError, match="WARRENER_CONSOLE_SECRET: expected at least 32"):
        read_secret("short", file)
    with pytest.raises(CommandError, match="expected to read the secret"):
        read_secret(None, tmp_path)
    taken = tmp_path / "file"
    taken.touch()
    with pytest.raises(CommandError, match="WARRENER_CONSOLE_SECRET_FILE"):
        read_secret(None, taken / "console.secret")
