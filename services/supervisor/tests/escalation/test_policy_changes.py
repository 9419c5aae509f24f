"""Editing the escalation file while incidents are open: no alert is swallowed, and nothing is undone that
died before."""

from datetime import datetime, timedelta

import pytest
from services.supervisor.tests.escalation.test_runner import UNDO, EscalationRig, policy
from services.supervisor.tests.stage import NOW
from structlog.testing import capture_logs

from warrener_store.incidents.rows import IncidentChange, IncidentRow
from warrener_supervisor.escalation.alerts import AlertMessage
from warrener_supervisor.escalation.job_steps import compensation_job_id
from warrener_supervisor.escalation.policy import SinkConfig
from warrener_supervisor.escalation.policy_file import check_file
from warrener_supervisor.escalation.policy_versions import LoadedEscalation, stored_policy, version_row

HOOKS = """
[sink.ops]
log = "error"
[sink.pager]
log = "error"
"""


def restarting(*steps: str, name: str = "a") -> str:
    return policy(*steps).replace('name = "a"', f'name = "{name}"\non_change = "restart"')


def alert(title: str, **more: str) -> str:
    fields = "".join(f", {key} = {value}" for key, value in more.items())
    return f'{{ do = "alert", title = "{title}"{fields} }}'


class PolicyRig(EscalationRig):
    """A rig whose file is edited, with sinks of any name."""

    def __init__(self, file: str) -> None:
        super().__init__(file)
        self.sent: list[tuple[str, str]] = []
        self.alert_ids: set[str] = set()

    async def send(self, name: str, declared: SinkConfig, alert: AlertMessage, now: datetime) -> None:
        self.sent.append((name, alert.title))
        self.alert_ids.add(alert.alert_id)

    @property
    def titles(self) -> list[str]:
        return [title for _, title in self.sent]

    def edit(self, file: str) -> None:
        self.file = check_file(file, {})

    async def look(self) -> None:
        """A second passes, and the supervisor runs."""
        await self.clock.advance(1)
        await self.runner.run_once()


async def begun(file: str) -> PolicyRig:
    """A rig with one incident that follows this file."""
    rig = PolicyRig(file)
    await rig.die()
    await rig.after(5)
    return rig


def history(row: IncidentRow) -> list[str]:
    return [one.name for one in row.policy_history.adoptions] if row.policy_history else []


TWO_ALERTS = policy(alert("one"), alert("two", after='"10m"'))


@pytest.mark.parametrize(
    "edited",
    [
        policy('{ do = "close" }'),
        policy(alert("another")),
        "",
        policy(alert("one"), '{ do = "close", after = "1m" }').replace('"a"', '"renamed"'),
        '[[policy]]\nname = "before"\nsteps = [{ do = "close" }]',
    ],
    ids=["other steps", "fewer steps", "removed", "renamed and edited", "another matches"],
)
@pytest.mark.parametrize("killed", [False, True])
async def test_an_open_incident_goes_on_by_the_policy_with_which_it_began(
    edited: str, *, killed: bool
) -> None:
    rig = await begun(TWO_ALERTS)
    rig.edit(edited)
    if killed:
        rig.runner = rig.new_runner(lambda: rig.file, seed=2)
    row = await rig.after(700, every=10)
    assert rig.titles == ["one", "two"]
    assert (row.step, row.round, row.closed_at, history(row)) == (2, 1, None, ["a"])


async def test_a_rename_alone_changes_nothing() -> None:
    rig = await begun(restarting(alert("one"), alert("two", after='"10m"')))
    before = await rig.after(1)
    rig.edit(restarting(alert("one"), alert("two", after='"10m"'), name="renamed"))
    row = await rig.after(700, every=10)
    assert rig.titles == ["one", "two"]
    assert (row.policy_version, row.round) == (before.policy_version, 1)


async def test_a_policy_with_on_change_restarts_open_incidents_with_alerts_of_new_ids() -> None:
    rig = await begun(TWO_ALERTS)
    rig.edit(restarting(alert("new one"), alert("new two", after='"1m"'), name="b"))
    row = await rig.after(100)
    assert rig.titles == ["one", "new one", "new two"]
    assert len(rig.alert_ids) == 3
    assert (row.step, row.round, row.times, history(row)) == (2, 2, 1, ["a", "b"])


async def test_the_effect_of_a_file_on_open_incidents_is_logged() -> None:
    rig = await begun(TWO_ALERTS)
    row = await rig.after(1)
    with capture_logs() as records:
        rig.edit(policy(alert("edited")))
        await rig.look()
        await rig.look()
        rig.edit(restarting(alert("edited again")))
        await rig.look()
    found = [(one["action"], one.get("fingerprints") or one["fingerprint"]) for one in records]
    assert found == [
        ("escalation.continued", [row.fingerprint]),
        ("escalation.restarting", [row.fingerprint]),
        ("escalation.restarted", row.fingerprint),
    ]


async def test_an_incident_at_rest_is_woken_for_its_restart() -> None:
    rig = await begun(policy(alert("one")))
    assert (await rig.after(60)).wake_at is None
    rig.edit(restarting(alert("new one")))
    await rig.after(2)
    assert rig.titles == ["one", "new one"]


async def test_what_began_without_a_policy_restarts_by_the_first_that_matches() -> None:
    rig = await begun("")
    rig.edit(policy(alert("seen at last")).replace("steps", 'job_types = "flights.*"\nsteps'))
    row = await rig.after(5)
    assert rig.titles[1:] == ["seen at last"]
    assert history(row) == ["default", "a"]
    rig.edit("")
    row = await rig.after(5)
    assert history(row) == ["default", "a"], "a file without policies restarts nothing"


async def test_a_file_that_is_edited_back_leaves_each_incident_its_policy() -> None:
    rig = await begun(TWO_ALERTS)
    rig.edit(policy(alert("short")))
    await rig.die(job_type="mail.send")
    await rig.look()
    rig.edit(TWO_ALERTS)
    for _ in range(70):
        await rig.clock.advance(10)
        await rig.runner.run_once()
    assert rig.titles == ["one", "short", "two"]


async def test_supervisors_with_different_files_do_not_restart_an_incident_in_turns() -> None:
    rig = await begun(restarting(alert("old")))
    newer = check_file(restarting(alert("new")), {})
    other = rig.new_runner(lambda: newer, seed=2)
    for _ in range(50):
        await rig.clock.advance(1)
        await other.run_once()
        await rig.runner.run_once()
    assert rig.titles == ["old", "new"]
    await rig.die()
    for _ in range(5):
        await rig.clock.advance(1)
        await rig.runner.run_once()
        await other.run_once()
    assert rig.titles == ["old", "new"], "another occurrence gives the older file no new turn"
    rig.runner = rig.new_runner(lambda: rig.file, seed=3)  # the old one is started again, by its old file
    for _ in range(50):
        await rig.clock.advance(1)
        await other.run_once()
        await rig.runner.run_once()
    assert rig.titles == ["old", "new", "old"], "one restart for each time a file is read"


async def test_an_acknowledgement_is_about_the_incident_and_outlives_a_restart() -> None:
    rig = await begun(policy(alert("one")))
    row = await rig.after(1)
    acknowledged = IncidentChange(fingerprint=row.fingerprint, at=rig.clock.now(), acknowledged_by="ann")
    await rig.incidents.change_incidents([acknowledged])
    rig.edit(restarting(alert("new one"), '{ do = "close", after = "1m" }'))
    row = await rig.after(70)
    assert rig.titles == ["one"]
    assert (row.acknowledged_by, row.close_reason) == ("ann", "by policy a")


class TestCompensations:
    async def test_none_runs_for_what_died_before_its_policy_was_there(self) -> None:
        rig = await begun(policy(alert("one")))
        rig.edit(restarting(UNDO, alert("two")))
        row = await rig.after(70)
        assert rig.requested_ids("undo") == []
        assert row.last_error == "passed over 1 jobs that died before compensate was in the policy"
        assert rig.titles == ["one", "two"], "the policy goes on"
        late = await rig.die()
        await rig.after(5)
        assert rig.requested_ids("undo") == [compensation_job_id(late.job_id, "undo")]

    @pytest.mark.parametrize(
        ("before", "edited", "policies"),
        [
            pytest.param(policy(alert("one")), restarting('{ do = "retry" }'), ["a", "a"], id="nor a retry"),
            pytest.param(
                policy(UNDO).replace("steps", 'job_types = "bank.*"\nsteps'),
                policy(UNDO),
                ["default", "a"],
                id="wider patterns are for what dies from then on",
            ),
        ],
    )
    async def test_no_request_is_made_for_what_died_before(
        self, before: str, edited: str, policies: list[str]
    ) -> None:
        rig = await begun(before)
        rig.edit(edited)
        row = await rig.after(70)
        assert (history(row), rig.requested) == (policies, [])

    async def test_nor_where_the_supervisor_was_down_while_the_file_was_edited(self) -> None:
        rig = PolicyRig(policy(alert("one")))
        early = await rig.die()
        rig.edit(policy(UNDO))
        rig.runner = rig.new_runner(lambda: rig.file, seed=2)
        await rig.after(70)
        assert rig.requested_ids("undo") == []
        late = await rig.die()
        await rig.after(5)
        assert rig.requested_ids("undo") == [compensation_job_id(late.job_id, "undo")]
        assert early.job_id != late.job_id

    async def test_an_incident_that_began_before_goes_on_without_it(self) -> None:
        rig = await begun(policy(alert("one")))
        rig.edit(policy(alert("one"), UNDO))
        await rig.die()
        await rig.after(100)
        assert rig.requested == []

    @pytest.mark.parametrize("killed", [False, True])
    async def test_one_that_is_still_to_come_survives_an_edit(self, *, killed: bool) -> None:
        rig = PolicyRig(policy(UNDO.replace("path }}", "paht }}")))
        dead = await rig.die()
        await rig.after(10)
        rig.edit(restarting(alert("also"), UNDO))  # a corrected template is the same compensation
        if killed:
            rig.runner = rig.new_runner(lambda: rig.file, seed=2)
        await rig.after(70)
        assert rig.titles == ["also"]
        assert rig.requested_ids("undo") == [compensation_job_id(dead.job_id, "undo")]

    async def test_what_died_while_the_file_had_none_gets_none_when_it_is_edited_back(self) -> None:
        rig = PolicyRig(restarting(UNDO))
        await rig.look()
        rig.edit(restarting(alert("one")))
        await rig.look()
        await rig.die()
        await rig.after(5)
        rig.edit(restarting(UNDO))
        row = await rig.after(70)
        assert (history(row), rig.requested) == (["a", "a"], [])


async def test_alerts_of_a_sink_that_is_gone_go_to_those_of_the_present_policy() -> None:
    to_ops = '[sink.ops]\nlog = "error"\n' + policy(alert("other", to='["ops"]'))
    for edited, sink in ((to_ops, "ops"), ("", "log")):
        rig = await begun(HOOKS + policy(alert("one", to='["pager"]', after='"1m"')))
        rig.edit(edited)
        await rig.after(70)
        assert rig.sent == [(sink, "one")]


async def test_a_digest_that_is_gone_is_reported_by_another() -> None:
    rig = await begun(
        f'{HOOKS}[digest.weekly]\nto = ["pager"]\n' + policy('{ do = "digest", into = "weekly" }')
    )
    rig.edit(f'{HOOKS}[digest.team]\nto = ["ops"]\n' + policy('{ do = "digest", into = "team" }'))
    await rig.after(timedelta(days=2).total_seconds(), every=3600)
    assert rig.sent == [("ops", "Digest weekly: 1 incidents, 1 times")]


QUIET = '[[quiet.night]]\nfrom = "22:00"\nto = "07:00"\nzone = "Europe/Berlin"\n'


class TestVersions:
    def version(self, text: str) -> str:
        return LoadedEscalation.of(check_file(text, {}), NOW).versions[0].version

    @pytest.mark.parametrize(
        ("one", "other", "same"),
        [
            (policy(alert("a")), policy(alert("a")).replace('"a"\n', '"b"\n'), True),
            (policy(alert("a")), restarting(alert("a")), True),
            (policy(alert("a")), policy(alert("a", urgent="false", after='"0s"')), True),
            (policy(alert("a", after='"60s"')), policy(alert("a", after='"1m"')), True),
            (policy(alert("a")), policy(alert("b")), False),
            (policy(alert("a")), policy(alert("a")) + '\nkinds = "job.*"', False),
        ],
        ids=["name", "on_change", "defaults written out", "the same time", "a title", "a pattern"],
    )
    def test_a_version_follows_from_everything_that_has_an_effect(
        self, one: str, other: str, *, same: bool
    ) -> None:
        assert (self.version(one) == self.version(other)) == same

    def test_quiet_hours_belong_to_the_policy_that_names_them(self) -> None:
        text = QUIET + policy(alert("a")) + '\nquiet = "night"'
        assert self.version(text) != self.version(text.replace("07:00", "08:00"))
        assert self.version(policy(alert("a"))) == self.version(QUIET + policy(alert("a")))

    def test_a_version_comes_back_from_the_store_as_it_was(self) -> None:
        text = (
            f"{QUIET}[digest.weekly]\n"
            + policy(
                '{ do = "retry", after = "1h30m" }',
                alert("a", urgent="true"),
                '{ do = "digest", into = "weekly" }',
                '{ do = "compensate", job_type = "undo", arguments = { at = 2026-11-22T10:00:00Z } }',
                '{ do = "close", after = "1d" }',
            )
            + '\nquiet = "night"'
        )
        loaded = LoadedEscalation.of(check_file(text, {}), NOW)
        for version in loaded.versions:
            row = version_row(version, NOW)
            found = stored_policy(row)
            assert version_row(found.version, NOW) == row
            definition = found.version.definition
            quiet = {"night": definition.quiet} if definition.quiet else {}
            file = check_file("", {}).model_copy(update={"policies": (definition.policy,), "quiet": quiet})
            assert LoadedEscalation.of(file, NOW).versions[0].version == version.version
