"""Settings: where they come from, which one wins, and what a mistake is answered with."""

import os
from pathlib import Path
from typing import ClassVar

import pytest
from pydantic import Field

from warrener_runtime.settings import ServiceSettings, SettingsError, load


class BreadSettings(ServiceSettings):
    section: ClassVar[str | None] = "bakery"
    loaves: int = 3
    ovens: list[str] = Field(default_factory=list[str])
    prices: dict[str, int] = Field(default_factory=dict[str, int])


@pytest.fixture(autouse=True)
def nothing_set(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in [name for name in os.environ if name.startswith("WARRENER_")]:
        monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)


def write(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path


def test_flags_win_over_variables_over_the_file_over_defaults(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    assert load(BreadSettings).loaves == 3
    write(tmp_path / "warrener.toml", "loaves = 4\nlog_level = 'debug'")
    assert load(BreadSettings).loaves == 4
    monkeypatch.setenv("warrener_Loaves", "5")
    monkeypatch.setenv("WARRENER_LOG_LEVEL", "")  # which is not set
    assert load(BreadSettings).loaves == 5
    settings = load(BreadSettings, loaves=6, log_format=None)
    assert (settings.loaves, settings.log_level, settings.log_format) == (6, "debug", "json")


def test_a_table_of_the_service_wins_over_what_all_services_share(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    file = write(
        tmp_path / "elsewhere.toml",
        "loaves = 4\nshutdown_timeout = 7\nrelease_timeout = '2m'\n[bakery]\nloaves = 9\n[other]\nloaves = 1",
    )
    monkeypatch.setenv("WARRENER_CONFIG", str(file))
    settings = load(BreadSettings)
    assert (settings.loaves, settings.shutdown_timeout, settings.release_timeout) == (9, 7, 120)


def test_a_table_of_a_variable_is_merged_into_that_of_the_file(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    write(tmp_path / "warrener.toml", "[bakery.prices]\nrye = 4\nspelt = 5")
    monkeypatch.setenv("WARRENER_PRICES", '{"rye": 6}')
    assert load(BreadSettings).prices == {"rye": 6, "spelt": 5}


@pytest.mark.parametrize(
    ("name", "came", "expected"),
    [
        ("LOAVES", "many", "a valid integer"),
        ("LOG_FORMAT", "xml", "'json' or 'console'"),
        ("HEALTH_PORT", "70000", "less than or equal to 65535"),
        ("BROKER_URL", "localhost", "a URL like amqp://host:5672/vhost"),
        ("BROKER_URL", "amqp://h:notaport/", "a URL like amqp://host:5672/vhost"),
        ("OVENS", "[big", "a valid list"),
        ("SHUTDOWN_TIMEOUT", "soon", 'a duration such as 90, "90s", "2m", "1h30m" or "PT2M"'),
    ],
)
def test_a_wrong_variable_is_named_with_what_was_expected_and_what_came(
    monkeypatch: pytest.MonkeyPatch, name: str, came: str, expected: str
) -> None:
    monkeypatch.setenv(f"WARRENER_{name}", came)
    with pytest.raises(SettingsError) as caught:
        load(BreadSettings)
    assert str(caught.value) == f"WARRENER_{name}: expected {expected}, got {came!r}"


@pytest.mark.parametrize("written", ["big, small", '["big", "small"]'])
def test_a_list_is_written_with_commas_or_as_json(monkeypatch: pytest.MonkeyPatch, written: str) -> None:
    monkeypatch.setenv("WARRENER_OVENS", written)
    assert load(BreadSettings).ovens == ["big", "small"]


def test_a_wrong_key_is_named_with_its_file(tmp_path: Path) -> None:
    file = write(tmp_path / "warrener.toml", "[bakery]\nloaves = 'many'")
    with pytest.raises(SettingsError) as caught:
        load(BreadSettings)
    assert str(caught.value) == f"{file.name}: bakery.loaves: expected a valid integer, got 'many'"


def test_a_wrong_flag_is_named_as_it_is_and_an_unknown_one_is_a_mistake_of_the_programmer() -> None:
    expected = r"^--shutdown-timeout: expected greater than or equal to 0, got -1"
    with pytest.raises(SettingsError, match=expected):
        load(ServiceSettings, shutdown_timeout=-1)
    with pytest.raises(TypeError, match="expected fields of ServiceSettings"):
        load(ServiceSettings, loafs=1)


def test_a_missing_or_malformed_file_is_reported(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("WARRENER_CONFIG", str(tmp_path / "missing.toml"))
    with pytest.raises(SettingsError, match=r"WARRENER_CONFIG: expected a file that can be read"):
        load(ServiceSettings)
    monkeypatch.setenv("WARRENER_CONFIG", str(write(tmp_path / "bad.toml", "loaves = = 3")))
    with pytest.raises(SettingsError, match=r"expected TOML, got a mistake"):
        load(ServiceSettings)


def test_a_slip_of_the_pen_gets_a_hint_and_the_setting_of_another_service_does_not(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("WARRENER_BROKER_ULR", "amqp://elsewhere/")
    monkeypatch.setenv("WARRENER_LOAVES", "5")  # a setting of the bakery, which is not loaded here
    write(tmp_path / "warrener.toml", "shutdown_timeot = 5\nsomething_else = 1")
    hints = load(ServiceSettings).hints
    assert len(hints) == 2
    assert "WARRENER_BROKER_ULR looks like a slip of the pen for WARRENER_BROKER_URL" in hints[0]
    assert "shutdown_timeot looks like a slip of the pen for shutdown_timeout" in hints[1]
    monkeypatch.setenv("WARRENER_LOG_LEVEL", "loud")
    with pytest.raises(SettingsError, match="hint: WARRENER_BROKER_ULR"):
        load(ServiceSettings)


def test_passwords_are_never_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = load(ServiceSettings, broker_url="amqp://me:secret@host/")
    assert settings.broker_url == "amqp://me:secret@host/"
    assert "secret" not in repr(settings) + str(settings)
    monkeypatch.setenv("WARRENER_BROKER_URL", "http://me:secret@host/")
    with pytest.raises(SettingsError) as caught:
        load(ServiceSettings)
    assert "secret" not in str(caught.value)


# -- values that stand in files of their own ------------------------------------------------------------


def secret_file(folder: Path, text: str, mode: int = 0o600) -> str:
    path = write(folder / "broker-url", text)
    path.chmod(mode)
    return str(path)


def test_a_secret_comes_from_the_file_that_a_variable_names(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("WARRENER_BROKER_URL_FILE", secret_file(tmp_path, "amqp://me:pass@broker/\n"))
    settings = load(BreadSettings)
    assert settings.broker_url == "amqp://me:pass@broker/"
    assert settings.hints == ()
    assert load(BreadSettings, broker_url="amqp://flag/").broker_url == "amqp://flag/"


def test_a_secret_comes_from_the_file_that_the_toml_file_names(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    path = secret_file(tmp_path, "amqp://me:pass@broker/")
    write(tmp_path / "warrener.toml", f"broker_url_file = {path!r}")
    settings = load(BreadSettings)
    assert (settings.broker_url, settings.hints) == ("amqp://me:pass@broker/", ())
    monkeypatch.setenv("WARRENER_BROKER_URL", "amqp://variable/")  # which wins, as over any of its keys
    assert load(BreadSettings).broker_url == "amqp://variable/"


def test_a_secret_from_two_places_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("WARRENER_BROKER_URL_FILE", secret_file(tmp_path, "amqp://file/"))
    monkeypatch.setenv("WARRENER_BROKER_URL", "amqp://variable/")
    with pytest.raises(SettingsError, match="WARRENER_BROKER_URL or WARRENER_BROKER_URL_FILE, got both"):
        load(BreadSettings)


def test_a_secret_file_that_cannot_be_read_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("WARRENER_BROKER_URL_FILE", str(tmp_path / "none"))
    with pytest.raises(SettingsError, match=r"WARRENER_BROKER_URL_FILE: .* file that this user can read"):
        load(BreadSettings)
    monkeypatch.setenv("WARRENER_BROKER_URL_FILE", secret_file(tmp_path, "\n"))
    with pytest.raises(SettingsError, match="got an empty one"):
        load(BreadSettings)
    monkeypatch.setenv("WARRENER_BROKER_URL_FILE", secret_file(tmp_path, "amqp:/me:hidden@broker/"))
    with pytest.raises(SettingsError, match="WARRENER_BROKER_URL_FILE: expected a URL") as refused:
        load(BreadSettings)
    assert "hidden" not in str(refused.value)


def test_a_secret_file_for_all_to_read_is_reported(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("WARRENER_BROKER_URL_FILE", secret_file(tmp_path, "amqp://broker/", 0o644))
    (hint,) = load(BreadSettings).hints
    assert "each user of this machine can read: chmod 600" in hint
