"""How often Python looks for circles of garbage in a service that works in batches."""

import gc

_YOUNG = 50_000  # containers made since the last look; Python's own 700 comes many times in one batch
_OLDER = (20, 50)  # how many looks at the young bring one at the older ones: few batches leave any behind


def look_for_garbage_seldom() -> None:
    """Call it when a service is put together: what exists then is never looked at again, and what a batch
    makes is looked at once in some batches.

    Nearly all that a batch makes is freed by counting references as soon as the batch is over. Looking for
    circles in the midst of it finds nothing and costs a quarter of a service's time. Not for a process that
    runs code of others, who may leave large things in circles.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(_YOUNG, *_OLDER)
