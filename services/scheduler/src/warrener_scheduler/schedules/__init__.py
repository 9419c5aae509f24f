"""The clock: schedules are kept, their ticks are decided and asked for as jobs, through the same door as all
requests. Any number of schedulers may run one each."""
