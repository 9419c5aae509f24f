"""Everything that may go wrong, at random, for a while."""

from collections.abc import Callable

from tests.simulation.world import World

from warrener_contracts import topology

_CONSUMED = (
    topology.REQUESTS_QUEUE,
    topology.STATUS_QUEUE,
    topology.SCHEDULER_COMMANDS,
    topology.SUPERVISOR_COMMANDS,
)


async def inject_faults(world: World, seconds: float) -> None:
    """One fault after the other until `seconds` of virtual time have passed."""
    end = world.clock.monotonic() + seconds
    while world.clock.monotonic() < end:
        await world.clock.sleep(world.dice.choice((0.05, 0.5, 2.0, 6.0)))
        world.dice.choice(_FAULTS)(world)
        if not world.broker.running.is_set():
            await world.clock.sleep(world.dice.choice((0.5, 5.0, 40.0)))
            world.broker.start()
    world.broker.start()


def _kill(world: World) -> None:
    """A process dies at one of its next calls."""
    process = world.dice.choice(world.processes)
    process.life.strike_at(world.dice.randint(0, 12), effect_first=world.dice.random() < 0.5)


def _set_clock(world: World) -> None:
    """Somebody sets the wall clock of a host."""
    world.dice.choice(world.processes).clock.wrong = world.dice.choice((0.0, 10.0, -10.0, 60.0, -60.0))


_FAULTS: tuple[Callable[[World], None], ...] = (
    *[_kill] * 3,  # the likeliest
    lambda world: world.dice.choice(world.processes).drain_requested.set(),
    lambda world: world.broker.drop_connections(),
    lambda world: world.broker.stop(),
    lambda world: world.broker.lose_confirms(world.dice.randint(1, 5)),
    lambda world: world.broker.duplicate(world.dice.randint(1, 5)),
    # As when the leader of a queue moves.
    lambda world: world.broker.cancel_consumers(world.dice.choice(_CONSUMED).name),
    _set_clock,
)
