"""Connecting to a store whose database may come later than the service that needs it."""

from collections.abc import Awaitable, Callable

from warrener_store.port import StateStore, StoreUnavailable

_FIRST_PAUSE = 0.2
_LONGEST_PAUSE = 5.0


async def connect_with_retry(
    store: StateStore,
    *,
    sleep: Callable[[float], Awaitable[None]],
    waiting: Callable[[StoreUnavailable], None],
) -> None:
    """Start `store` as soon as its database answers; `waiting` is told once that it does not yet.

    What waiting cannot mend, such as StoreNotMigrated, is raised at once.
    """
    pause, is_reported = _FIRST_PAUSE, False
    while True:
        try:
            await store.start()
        except StoreUnavailable as error:
            if not is_reported:
                is_reported = True
                waiting(error)
        else:
            return
        await sleep(pause)
        pause = min(2 * pause, _LONGEST_PAUSE)
