"""When a schedule ticks: pure functions of its rule, its zone and the moment from which on to look."""
