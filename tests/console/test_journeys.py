"""A person's way through the console: look, find, understand, act. Every action goes through the broker."""

import re
from typing import TYPE_CHECKING

from playwright.sync_api import expect
from tests.acceptance.warren import until
from tests.console.site import LiveSite

from warrener_client import SyncClient

if TYPE_CHECKING:
    from playwright.sync_api import Page

WAIT = 20_000  # milliseconds until an expectation fails


def test_the_overview_leads_to_the_job_that_failed_and_its_reason(page: "Page", site: LiveSite) -> None:
    page.goto("/")
    page.get_by_role("navigation").get_by_role("link", name="Dead letters").click()
    expect(page.get_by_role("heading", level=1)).to_contain_text("Dead letters")
    page.goto(f"/jobs/{site.samples['dead']}")
    expect(page.locator("main")).to_contain_text("expected 19 fields in line 17")
    expect(page.locator("main")).to_contain_text("<script>alert(1)</script>")


def test_a_job_is_found_from_any_page_by_a_part_of_its_id(page: "Page", site: LiveSite) -> None:
    page.goto("/schedules")
    page.keyboard.press("/")
    page.keyboard.type(site.samples["done"][-8:])  # many jobs begin alike
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile(r"/search\?q="))
    page.locator(f"main a[href='/jobs/{site.samples['done']}']").first.click()
    expect(page.get_by_role("heading", level=1)).to_contain_text("import.rows")


def test_keys_that_are_typed_into_a_field_are_no_commands(page: "Page", site: LiveSite) -> None:
    assert site.samples
    page.goto("/jobs")
    for field in (page.locator("#search"), page.get_by_label("Error"), page.locator("select, input").last):
        field.focus()
        page.keyboard.type("gs?/jk")
        expect(page).to_have_url(re.compile("/jobs$"))
        expect(page.locator("#keys")).to_be_hidden()
    expect(page.locator("#search")).to_have_value("gs?/jk")
    page.keyboard.press("Escape")
    page.keyboard.press("g")
    page.keyboard.press("s")
    expect(page).to_have_url(re.compile("/schedules$"))


def test_an_open_page_shows_a_change_without_being_loaded_again(page: "Page", site: LiveSite) -> None:
    with SyncClient(site.warren.broker_url) as client:
        job = client.request("import.third_time", {"path": "live.csv"})
        until(lambda: _has(site, str(job.job_id)), "the job to be stored")
        page.goto(f"/jobs/{job.job_id}")
        page.evaluate("window.isTheSame = true")
        expect(page.locator("main")).to_contain_text("succeeded", timeout=WAIT)
        assert page.evaluate("window.isTheSame") is True


def test_the_logs_of_a_running_job_arrive(page: "Page", site: LiveSite) -> None:
    page.goto(f"/jobs/{site.samples['running']}")
    expect(page.locator("main")).to_contain_text("running")
    page.evaluate("window.isTheSame = true")
    shown = page.locator("main").inner_text().count("row ")
    expect(page.locator("main")).to_contain_text("row ", timeout=WAIT)
    until(lambda: page.locator("main").inner_text().count("row ") > shown, "another line of the log")
    assert page.evaluate("window.isTheSame") is True


def test_a_waiting_job_shows_its_cause_and_is_cancelled(page: "Page", site: LiveSite) -> None:
    with SyncClient(site.warren.broker_url) as client:
        job = client.request("import.rows", {"path": "x.csv"}, queue="nobody-serves-it")
    until(lambda: _has(site, str(job.job_id)), "the job to be stored")
    page.goto(f"/jobs/{job.job_id}")
    expect(page.locator("main")).to_contain_text("nobody-serves-it")
    act(page, "Cancel this job", menu="Cancel…", reason="a test of the console")
    expect(page.locator("main")).to_contain_text("cancelled", timeout=WAIT)


def test_a_schedule_is_paused_resumed_and_triggered(page: "Page", site: LiveSite) -> None:
    page.goto(f"/schedules/{site.samples['schedule']}")
    act(page, "Pause", menu="Pause…", reason="the source is being moved")
    expect(page.locator("main")).to_contain_text("the source is being moved", timeout=WAIT)
    act(page, "Resume")
    expect(page.locator("main summary", has_text="Pause…")).to_be_visible(timeout=WAIT)
    act(page, "Trigger now")
    expect(page.locator("#notices")).to_contain_text("trigger", ignore_case=True, timeout=WAIT)


def test_ticked_jobs_are_cancelled_together(page: "Page", site: LiveSite) -> None:
    with SyncClient(site.warren.broker_url) as client:
        jobs = [client.request("import.rows", {"path": f"{n}.csv"}, queue="nobody-at-all") for n in range(3)]
    until(lambda: all(_has(site, str(job.job_id)) for job in jobs), "the jobs to be stored")
    page.goto("/jobs?queue=nobody-at-all&state=queued")
    page.get_by_label("All of this page").check()
    act(page, "Cancel ticked")
    expect(page.locator("#notices")).to_contain_text("3", timeout=WAIT)
    page.goto("/jobs?queue=nobody-at-all&state=cancelled")
    expect(page.locator("main tbody tr")).to_have_count(3, timeout=WAIT)


def test_a_cause_of_dead_letters_is_redriven_and_its_page_follows(page: "Page", site: LiveSite) -> None:
    page.goto("/dead-letters")
    page.get_by_role("link", name="ValueError").first.click()
    expect(page.locator("main")).to_contain_text("expected 19 fields in line 17")
    act(page, "Redrive 1 jobs")
    expect(page).to_have_url(re.compile("/redrives/"), timeout=WAIT)
    expect(page.locator("main")).to_contain_text(re.compile("died again|stopped|came back"), timeout=60_000)


def test_a_breaker_is_opened_and_closed(page: "Page", site: LiveSite) -> None:
    page.goto("/breakers")
    act(page, "Open", menu="Open…")
    close = page.locator("main").get_by_role("button", name="Close", exact=True)
    expect(close).to_be_visible(timeout=WAIT)
    act(page, "Close")
    expect(close).to_have_count(0, timeout=WAIT)


def test_an_incident_is_acknowledged_and_the_audit_log_names_it(page: "Page", site: LiveSite) -> None:
    page.goto("/incidents")
    page.locator("main tbody a").first.click()
    act(page, "Acknowledge")
    expect(page.locator("main")).to_contain_text("acknowledged", ignore_case=True, timeout=WAIT)
    page.goto("/audit")
    expect(page.locator("main")).to_contain_text("incident.acknowledge")


def act(page: "Page", label: str, *, menu: str = "", reason: str = "") -> None:
    """Press the button with this label, in a menu that is opened first, and agree to what it asks."""
    page.once("dialog", lambda dialog: dialog.accept())
    where = page.locator("main")
    if menu:
        summary = where.locator("summary", has_text=menu).first
        summary.click()
        where = page.locator("details[open]").filter(has=page.locator("summary", has_text=menu)).first
    if reason:
        where.locator("[name=reason]").first.fill(reason)
    where.get_by_role("button", name=label, exact=True).first.click()


def _has(site: LiveSite, job_id: str) -> bool:
    try:
        site.get(f"/jobs/{job_id}")
    except OSError:
        return False
    return True
