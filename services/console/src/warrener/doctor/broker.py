"""Checks of the broker: reachability, version, topology, bindings, permissions, clock, consumers; and of what
waits in its queues, explained as `warrener explain` does."""

from collections import Counter
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from datetime import timedelta

from warrener.context import ResolvedEndpoints, connect_store
from warrener.doctor import CheckResult, CheckStatus, failed, ok, warning
from warrener.doctor.inspector import PROBE_WAITS, BrokerTime, QueueInfo, open_inspector
from warrener.doctor.management_api import resolve_management_api
from warrener.doctor.topology import TopologyDiff, TopologyDifference, check_replicas, compare_topology
from warrener.errors import CommandError
from warrener.explanations import explain
from warrener.explanations.explanation import Explanation
from warrener.explanations.facts import QueueSubject, SystemFacts, TypeSubject, counted
from warrener.gathering import gather_system, queue_subject
from warrener.render.times import span
from warrener_amqp.errors import ChannelRefused
from warrener_contracts import topology as wire
from warrener_contracts.state_machine import JobState
from warrener_store import StoreError
from warrener_store.jobs.rows import StateCount
from warrener_store.jobs.views import QueueHead

_OLDEST = (3, 10)
_CLOCK_CHECK = "broker clock"
_DELAY_CHECK = "delay levels"
_BROKEN_LEVEL = (
    "look in the broker's log for its dead-letter worker, and at the replicas of warrener.delay.LEVEL; jobs"
    " that wait there are dispatched late and not lost, and `warrener topology --check` compares the queue"
)
_SECOND = timedelta(seconds=1)  # the resolution of the broker's clock
_MAX_SKEW = timedelta(seconds=2)
_WAITING = (JobState.WAITING, JobState.QUEUED, JobState.RETRYING)
_ALARM = "`rabbitmq-diagnostics alarms` names the node: make room on its disk, or give it memory"
_NTP = "let a time service (NTP) set both clocks"

_CONSUMED = (
    ("scheduler", "scheduler", wire.REQUESTS_QUEUE),
    ("scheduler commands", "scheduler", wire.SCHEDULER_COMMANDS),
    ("supervisor", "supervisor", wire.STATUS_QUEUE),
    ("supervisor commands", "supervisor", wire.SUPERVISOR_COMMANDS),
)
"""Checks, and the service that consumes the queue of each."""


async def check_broker(endpoints: ResolvedEndpoints) -> AsyncIterator[CheckResult]:
    """Run all checks of the broker; a check that fails may end them."""
    try:
        management = resolve_management_api(endpoints.broker_url, endpoints.management_url)
        async with open_inspector(endpoints.broker_url, endpoints.namespace) as inspector:
            yield version(inspector.broker)
            found = await compare_topology(inspector, management)
            yield topology(found.differences)
            if (result := bindings(found)) is not None:
                yield result
            if found.compared:
                yield await check_replicas(management, inspector.names)
            if not any(each.missing for each in found.differences):
                for name, service, queue in _CONSUMED:
                    yield check_consumers(name, service, queue, await inspector.queue(queue.name))
                for queue in (wire.DEAD_QUEUE, wire.UNROUTABLE_QUEUE):
                    seen = await inspector.queue(queue.name)
                    if seen is not None and seen.messages and not seen.consumers:
                        yield warning(
                            queue.name, f"{seen.messages} messages wait to be stored", "start a supervisor"
                        )
                if (reason := await inspector.alarm()) is not None:
                    blocked = f"the broker takes no messages: {reason}"
                    yield failed(
                        "broker alarm", f"{blocked}; permissions and clock were not looked at", _ALARM
                    )
                    return
                yield permissions(await inspector.check_permissions())
                yield broker_clock(await inspector.time())
                try:
                    yield delay_levels(await inspector.prove_delay_levels())
                except ChannelRefused as refused:
                    yield warning(_DELAY_CHECK, f"not tried: {refused.reason}", "run it as a topology-admin")
    except CommandError as error:
        yield failed("broker", error.sentence, error.do or "start it")


def version(broker: str) -> CheckResult:
    """Require RabbitMQ 3.10 or later; no other broker is tested."""
    name, _, number = broker.partition(" ")
    parts = tuple(int(part) for part in number.split(".")[:2] if part.isdigit())
    if name != "RabbitMQ":
        return warning(
            "broker", f"expected RabbitMQ, got {broker}", "use RabbitMQ 3.10 or later: no other is tested"
        )
    if parts < _OLDEST:
        return failed("broker", f"expected RabbitMQ 3.10 or later, got {number}", "upgrade the broker")
    return ok("broker", f"{broker} answers")


def topology(found: Sequence[TopologyDifference]) -> CheckResult:
    """Require every exchange and queue, as declared."""
    if not found:
        return ok("topology", "every exchange and queue is as this version declares it")
    if all(each.missing for each in found):
        return failed("topology", _summary(found), "run `warrener topology apply`, or start a service")
    return failed(
        "topology",
        _summary(found),
        "see `warrener topology --check`: a queue that differs must be deleted and declared again",
    )


def bindings(found: TopologyDiff) -> CheckResult | None:
    """Require every binding, warn of foreign ones and of no comparison. None if nothing can be bound."""
    if found.not_compared is not None:
        return warning("bindings", f"not compared: {found.not_compared.why}", found.not_compared.do)
    if missing := [each for each in found.bindings if each.status is CheckStatus.ERROR]:
        return failed("bindings", _summary(missing), missing[0].do or "")
    if found.bindings:
        return warning("bindings", _summary(found.bindings), found.bindings[0].do or "")
    if found.compared:
        return ok("bindings", "every queue is bound as this version binds it")
    return None


def _summary(found: Sequence[TopologyDifference]) -> str:
    more = f" and {len(found) - 3} more" if len(found) > 3 else ""
    return "; ".join(f"{each.what} {each.how}" for each in found[:3]) + more


def permissions(refused: str | None) -> CheckResult:
    """Require the rights to configure, write and read."""
    if refused is None:
        return ok("permissions", "configure, write and read were tried and granted")
    return failed(
        "permissions", f"expected all to be granted, got {refused}", "rabbitmqctl set_permissions …"
    )


def delay_levels(found: Mapping[str, str | None]) -> CheckResult:
    """Require that a message comes back from each delay level."""
    wrong = {level: why for level, why in found.items() if why is not None}
    text = "; ".join(f"{level}: {why}" for level, why in wrong.items())
    if any(PROBE_WAITS not in why for why in wrong.values()):
        return failed(_DELAY_CHECK, f"broken: {text}", _BROKEN_LEVEL)
    if wrong:
        return warning(_DELAY_CHECK, f"not tried: {text}", "try again when they have left")
    return ok(_DELAY_CHECK, f"a message came back from each of the {len(found)} levels")


def check_consumers(name: str, service: str, queue: wire.Queue, seen: QueueInfo | None) -> CheckResult:
    """Require a consumer of the queue. `name` is that of the check."""
    if seen is None or not seen.consumers:
        waiting = f", {seen.messages} messages wait" if seen else ""
        return failed(name, f"no consumer of {queue.name}{waiting}", f"start one: `warrener {service}`")
    return ok(name, f"{seen.consumers} running, {seen.messages} messages wait in {queue.name}")


def broker_clock(found: BrokerTime | str) -> CheckResult:
    """Compare the clocks. Their difference has bounds alone: the broker reports whole seconds, and its moment
    lies between `before` and `after` of ours."""
    if isinstance(found, str):
        return warning(_CLOCK_CHECK, f"not compared: {found}", "see the check of permissions, or try again")
    lowest, highest = found.before - (found.reported_at + _SECOND), found.after - found.reported_at
    if lowest > _MAX_SKEW:
        return failed(_CLOCK_CHECK, f"this machine is at least {span(lowest)} ahead of the broker", _NTP)
    if highest < -_MAX_SKEW:
        return failed(_CLOCK_CHECK, f"this machine is at least {span(highest)} behind the broker", _NTP)
    apart = max(abs(lowest), abs(highest)).total_seconds()
    return ok(_CLOCK_CHECK, f"this machine and the broker are at most {apart:.1f} s apart")


# -- what waits --------------------------------------------------------------------------------------------


async def check_waiting(endpoints: ResolvedEndpoints) -> AsyncIterator[CheckResult]:
    """Explain every queue and job type that has waiting jobs. Nothing if the store does not answer."""
    try:
        async with connect_store(endpoints) as store:
            heads = {head.queue: head for head in await store.queue_heads()}
            types = await store.job_types()
            queues = {row.queue for row in types.values()} | heads.keys()
            system = await gather_system(store, endpoints, queues)
            if system.broker_trouble is not None:
                return  # nothing is known of the queues; the check of the broker says why
            subjects = [await queue_subject(store, system, each, heads.get(each)) for each in sorted(queues)]
            found = [*check_queues(subjects, heads), *check_types(system, await store.count_jobs())]
    except (CommandError, StoreError):
        return  # the checks of the store and the broker say why
    for result in found:
        yield result


def check_queues(subjects: Sequence[QueueSubject], heads: Mapping[str, QueueHead]) -> list[CheckResult]:
    """Fail for each queue with jobs or messages whose agents take none of them. Pure."""
    waiting = {subject.name: subject.system.queues.get(subject.name) for subject in subjects}
    busy = [one for one in subjects if one.name in heads or ((at := waiting[one.name]) and at.waiting)]
    stuck = [(subject, found) for subject in busy if (found := explain(subject)).needs_action]
    if busy and not stuck:
        return [ok("queues", f"{len(busy)} with jobs, each with agents that take them")]
    return [_result(f"queue {subject.name}", found) for subject, found in stuck]


def check_types(system: SystemFacts, counts: Iterable[StateCount]) -> list[CheckResult]:
    """Fail for each job type with waiting jobs that no agent takes. Pure."""
    waiting: Counter[str] = Counter()
    for count in counts:
        if count.state in _WAITING and count.jobs:
            waiting[count.job_type] += count.jobs
    results: list[CheckResult] = []
    for name, jobs in sorted(waiting.items()):
        row = system.job_types.get(name)
        if row is not None and (found := explain(TypeSubject(system=system, row=row))).needs_action:
            results.append(_result(f"type {name}", found, f"; {counted(jobs, 'job')} waiting"))
    return results


def _result(check: str, found: Explanation, waiting: str = "") -> CheckResult:
    return failed(check, f"{found.line}{waiting}", next(iter(found.commands), found.next))
