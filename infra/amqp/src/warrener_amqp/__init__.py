"""AMQP 0-9-1 for the hot queues: a sans-IO core (bytes in, events out) under a thin asyncio transport.

`Connection` is the core: no socket, no clock. `Transport` gives it both and joins the frames of a loop turn
into one write. Tasks use `Session` and `Channel`. Four methods are coded by hand (deliver, publish, confirm,
acknowledge), all others by pamqp.
"""
