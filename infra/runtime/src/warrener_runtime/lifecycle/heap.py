"""What the garbage collector need not look at."""

import gc


def set_aside() -> None:
    """Tell the garbage collector that what is there now stays: modules, models, parts of the service.

    Called once, when a service is built and nothing passes through it yet. A full collection looks at every
    container of the process, some hundred thousand after the imports; without them it looks at what is on its
    way. What is set aside is still freed when nothing refers to it; only cycles of it would stay.
    """
    gc.collect()
    gc.freeze()
