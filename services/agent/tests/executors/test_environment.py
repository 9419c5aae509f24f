"""Variables of the agent's environment that reach a child process."""

import pytest

from warrener_agent.executors.environment import TRACE_VARIABLES, filter_environment


@pytest.mark.parametrize(
    ("name", "value", "passes"),
    [
        ("PATH", "/bin", True),
        ("PWD", "/home/shop", True),
        ("MONKEY", "x", True),
        ("KEYBOARD", "de", True),
        ("TOKENIZERS_PARALLELISM", "false", True),
        ("WARRENER_BROKER_URL", "amqp://warren:rabbit@broker/", False),
        ("WARRENER_BROKER_URL", "amqp://broker/", True),
        ("PROXY", "http://proxy:3128/a:b@c", True),
        ("MYSQL_PWD", "x", False),
        ("SECRET_SAUCE", "x", False),
        ("aws_secret_access_key", "x", False),
        ("GOOGLE_APPLICATION_CREDENTIALS", "/x.json", False),
        ("STRIPE_KEY", "x", False),
        ("SENTRY_DSN", "x", False),
    ],
)
def test_what_looks_secret_is_not_passed_on_unless_it_is_named(name: str, value: str, passes: bool) -> None:  # noqa: FBT001 - a table
    assert filter_environment({name: value}, ()) == ({name: value} if passes else {})
    assert filter_environment({name: value}, (name,)) == {name: value}


def test_the_trace_that_an_agent_was_started_in_is_not_that_of_its_attempts() -> None:
    assert filter_environment(dict.fromkeys(TRACE_VARIABLES, "x"), ()) == {}
