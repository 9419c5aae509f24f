"""Translates aiormq's errors to the bus's."""

import asyncio
from collections.abc import Generator
from contextlib import contextmanager

import aiormq

from warrener_runtime.bus.rabbitmq.client import BrokerConnectionLost


@contextmanager
def translate_errors() -> Generator[None]:
    """Translate errors of a lost connection to BrokerConnectionLost.

    When its peer is dead, aiormq ends pending calls with a CancelledError although nobody cancelled: `except
    Exception` misses it and the task dies. A task that really is being cancelled counts it in `cancelling()`.
    A refusal that says what is wrong with the topology (403, 404, 405, 406) passes through as it is.
    """
    try:
        yield
    except asyncio.CancelledError as error:
        task = asyncio.current_task()
        if task is not None and task.cancelling():
            raise
        raise BrokerConnectionLost("the connection died while a call was under way") from error
    except (
        aiormq.ChannelAccessRefused,
        aiormq.ChannelLockedResource,
        aiormq.ChannelNotFoundEntity,
        aiormq.ChannelPreconditionFailed,
    ):
        raise
    except (aiormq.AMQPError, OSError, RuntimeError, TimeoutError) as error:
        raise BrokerConnectionLost(_describe(error)) from error
    except Exception as error:
        if type(error) is Exception:  # what aiormq raises for a close without a reason
            raise BrokerConnectionLost("closed while a call was under way") from error
        raise


def _describe(error: BaseException) -> str:
    text = ", ".join(str(arg) for arg in error.args if arg is not None)
    return f"{type(error).__name__}: {text}" if text else type(error).__name__
