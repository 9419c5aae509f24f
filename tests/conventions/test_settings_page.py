"""The page of settings is the one that their classes make."""

from tests.conventions.settings_page import PAGE, settings_page


def test_the_page_of_settings_is_up_to_date() -> None:
    assert PAGE.read_text(encoding="utf-8") == settings_page(), (
        "run `python -m tests.conventions.settings_page`"
    )
