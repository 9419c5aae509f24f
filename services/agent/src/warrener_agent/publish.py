"""Publishing that neither gives up nor raises: what is handed in here is with the broker when it returns."""

from collections.abc import Sequence

from warrener_agent.workplace import Workplace
from warrener_contracts.letters import Letter
from warrener_runtime.logs import get_logger
from warrener_runtime.publishing import Unroutable, publish_all

_log = get_logger("agent.publish")
_PAUSE = 1.0


async def publish_surely(at: Workplace, letters: Sequence[Letter]) -> None:
    """Publish all; what no queue is bound for is tried again until there is one. Cancel it to give up."""
    left = list(letters)
    while left:
        try:
            await publish_all(at.bus, left, clock=at.clock)
        except Unroutable as error:
            left = [letter for letter in left if letter in error.letters]
            _log.error(
                "Nobody consumes what the agent sends; it is sent again. Is a scheduler running?",
                action="agent.unroutable",
                error=str(error),
            )
            await at.clock.sleep(_PAUSE)
        else:
            return
