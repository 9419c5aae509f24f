"""The page of the console's roles is made from its actions."""

from tests.conventions.console_access_page import PAGE, access_page


def test_the_page_is_up_to_date() -> None:
    found = PAGE.read_text(encoding="utf-8")
    assert found == access_page(), "run `python -m tests.conventions.console_access_page`"
