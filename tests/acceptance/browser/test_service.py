"""The pages of a service in a real browser: a journey by keyboard, and open to every reader."""

from __future__ import annotations

import io
import re
import signal
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
import torch
from playwright.sync_api import Browser, Locator, Page, Route, expect

from catalog.models.cifar import CifarSource
from jobs.service_client import ServiceClient
from tests.acceptance.browser.tabs import Watched, opened_browser, watched_tab
from tests.acceptance.command import end_group, launch
from tests.waiting import PATIENCE_SECONDS, until

pytestmark = [
    pytest.mark.slow(seconds=240),
    pytest.mark.long,
    pytest.mark.timeout(3600),
]

#: Keys of Tab that lead to anything on a page.
MOST_TABS = 300

#: Milliseconds that a page may take on a machine that computes beside it.
PAGE_MILLISECONDS = 150_000
expect.set_options(timeout=PAGE_MILLISECONDS)


@dataclass(frozen=True)
class Service:
    """A service on an empty home."""

    url: str
    #: Where the files lie that surveys may name.
    allowed: Path

    @property
    def client(self) -> ServiceClient:
        return ServiceClient(self.url)


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    folder = tmp_path_factory.mktemp("service")
    log, allowed = folder / "log", folder / "allowed"
    allowed.mkdir()
    command = ("serve", "--port", "0", "--runner", "local", "--device", "cpu", "--allow", allowed)
    process = launch(*command, home=folder / "home", log=log, OMP_NUM_THREADS="1")
    try:
        until(lambda: "listening at" in log.read_text() or process.poll() is not None)
        (url,) = re.findall(r"listening at (\S+)", log.read_text())
        yield Service(url, allowed)
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE_SECONDS) == 0
    finally:
        end_group(process)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with opened_browser() as opened:
        yield opened


@pytest.fixture
def tab(browser: Browser) -> Iterator[Watched]:
    size: Any = {"width": 1280, "height": 900}
    with watched_tab(browser, viewport=size, accept_downloads=True) as watched:
        watched.page.set_default_timeout(PAGE_MILLISECONDS)
        yield watched


def reach(page: Page, wanted: Locator) -> None:
    """Move the focus to an element, by the key alone that everybody has."""
    wanted.wait_for()
    for _ in range(MOST_TABS):
        if wanted.evaluate("element => element === document.activeElement"):
            return
        page.keyboard.press("Tab")
    pytest.fail(f"no key leads to {wanted}")


def follow(page: Page, role: Any, name: str | re.Pattern[str], key: str = "Enter") -> None:
    """Follow a link or press a button by keyboard."""
    reach(page, page.get_by_role(role, name=name, exact=isinstance(name, str)).first)
    page.keyboard.press(key)


def write(page: Page, label: str, text: str) -> None:
    """Write into a field by keyboard."""
    reach(page, page.get_by_label(label, exact=True))
    page.keyboard.type(text)


def test_the_whole_journey_by_keyboard(service: Service, tab: Watched) -> None:
    page = tab.page
    page.goto(service.url)
    submit_the_demo(page)
    watch_it(page)
    open_a_model(page)
    compare_two(page)
    query_and_download(page)
    schedule_and_see_it_run(page)
    assert tab.problems == []
    assert [url for url in tab.requests if not url.startswith((service.url, "data:"))] == []


def submit_the_demo(page: Page) -> None:
    follow(page, "link", "Submit the demo survey")
    expect(page.get_by_label("Models")).to_have_value("small:digits_*")
    follow(page, "button", "Submit")
    expect(page.locator("#live").get_by_text("(small:digits_*)")).to_have_count(1)


def watch_it(page: Page) -> None:
    """See the bars grow on a page that is never loaded again, and keep the focus meanwhile."""
    page.evaluate("window.neverLeft = true")
    shares = set[float]()
    reach(page, page.get_by_role("button", name="Cancel survey 1"))
    bar, cancel = page.get_by_label("The scan"), page.get_by_role("button", name="Cancel survey 1")
    page.get_by_role("region", name="Jobs under way").locator("progress").first.wait_for(
        timeout=1000 * PATIENCE_SECONDS
    )

    def over() -> bool:
        ended = page.get_by_text("8 of 8 jobs").count() == 1 and cancel.count() == 0
        # Read after the end is seen: the page may be renewed in between.
        if bar.count():
            shares.add(float(bar.get_attribute("value") or 0))
        return ended

    focused = page.evaluate("document.activeElement.textContent")
    assert focused == "Cancel survey 1"
    until(over)
    assert len(shares) > 2
    assert max(shares) == pytest.approx(1)
    assert page.evaluate("window.neverLeft")
    row = page.get_by_role("row", name=re.compile(r"1 \(small:digits_\*\) done .* 8 0"))
    expect(row).to_have_count(1)


def open_a_model(page: Page) -> None:
    follow(page, "link", "Models")
    follow(page, "link", "affinity")
    heading = page.get_by_role("columnheader", name="affinity", exact=True)
    expect(heading).to_have_attribute("aria-sort", "ascending")
    assert "sort=affinity" in page.url
    follow(page, "link", "digits_resnet14")
    expect(page.get_by_role("heading", level=1)).to_have_text("digits_resnet14")
    expect(page.locator("#table-sites tbody tr")).to_have_count(13)
    # The nearest models are fetched once a reader comes to them.
    page.keyboard.press("End")
    expect(page.locator("#table-neighbours tbody tr")).to_have_count(5)
    marks = page.locator("figure svg").first.locator("path > title")
    expect(marks.first).to_have_text(re.compile(r"site name: relu#1; .*affinity: 0\.\d+"))


def compare_two(page: Page) -> None:
    follow(page, "link", "Models")
    for name in ("digits_plain14", "digits_resnet14"):
        follow(page, "checkbox", f"Compare {name} bundled", key="Space")
    follow(page, "button", "Compare the ticked")
    # One axis for both, and the alignment.
    expect(
        page.get_by_role("heading", name="apart in affinity by dynamic time warping")
    ).to_have_count(1)
    expect(page.locator("figure")).to_have_count(2)
    follow(page, "link", "CKA")
    expect(page).to_have_url(re.compile("run=.*run=.*metric=cka"))
    expect(page.get_by_role("heading", name="apart in CKA by dynamic time warping")).to_have_count(
        1
    )
    expect(page.locator("figure")).to_have_count(2)


def query_and_download(page: Page) -> None:
    follow(page, "link", "SQL")
    reach(page, page.locator("#query"))
    page.keyboard.type("SELECT architecture, affinity FROM models ORDER BY affinity")
    follow(page, "button", "Run")
    names = page.locator("main tbody tr > :nth-child(1)")
    expect(names).to_have_count(8)
    with page.expect_download() as download:
        follow(page, "link", "Result (Parquet)")
    table = pq.read_table(io.BytesIO(download.value.path().read_bytes()))
    assert table["architecture"].to_pylist() == names.all_text_contents()


def schedule_and_see_it_run(page: Page) -> None:
    follow(page, "link", "Schedules")
    for label, text in (("Name", "often"), ("Times", "* * * * *"), ("Models", "small:digits_vgg7")):
        write(page, label, text)
    follow(page, "button", "Add")
    times = page.get_by_role("region", name="Due times of often")
    expect(page.get_by_role("heading", name="often")).to_have_count(1)

    def ran() -> bool:
        page.reload()
        return times.get_by_text("done", exact=True).count() > 0

    until(ran, pause=2.0)
    follow(page, "button", "Pause often")
    expect(page.get_by_role("button", name="Resume often")).to_have_count(1)
    expect(page.get_by_role("listitem").filter(has_text="often")).not_to_have_count(0)


@pytest.fixture(scope="module")
def pages(service: Service) -> list[str]:
    """The addresses of every page, once the demo was measured and one job has failed."""
    state = CifarSource().get("digits_resnet14").build().state_dict()
    torch.save({**state, next(iter(state)): torch.zeros(3, 3)}, service.allowed / "shape.pth")
    bad = {"name": "small:digits_resnet14", "checkpoints": [f"file:{service.allowed}/shape.pth"]}
    client = service.client
    for models in ([{"name": "small:digits_*"}], [bad]):
        number = client.submit({"name": "demo", "models": models}).id
        list(client.until_over(number))
    done = client.sql("SELECT run_id FROM models WHERE status = 'done' ORDER BY architecture")
    first, second, *_ = done["run_id"].to_pylist()
    query = "query=FROM%20models%20ORDER%20BY%20run_id&x=sites&y=affinity"
    places = (
        *("", "models", "models?search=vgg&sort=-affinity", f"models/{first}", "compare"),
        *(f"models/{first}/{part}" for part in ("signature", "nearest", "runs")),
        *(f"compare?run={first}&run={second}", "map", "questions", "questions/drift"),
        *("questions/neighbours", "questions/correlations", "questions/missing", "scan"),
        *("schedules", "sql", f"sql?{query}", "sql?query=nonsense", "models/nothing"),
    )
    return [f"{service.url}/{place}" for place in places]


@pytest.mark.parametrize("width", [1440, 390])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_no_reader_is_shut_out(pages: list[str], browser: Browser, width: int, scheme: Any) -> None:
    size: Any = {"width": width, "height": 900}
    with watched_tab(browser, viewport=size, color_scheme=scheme) as watched:
        watched.page.set_default_timeout(PAGE_MILLISECONDS)
        assert "".join(map(watched.shut_out, pages)) == ""


def test_pages_say_the_same_without_javascript(pages: list[str], browser: Browser) -> None:
    with watched_tab(browser) as scripted, watched_tab(browser, java_script_enabled=False) as plain:
        for page in (scripted.page, plain.page):
            page.set_default_timeout(PAGE_MILLISECONDS)
        scripted.page.route("**/models/*/*", only_as_a_page)
        for address in pages:
            # Above what renews itself stands a link without a script.
            part = "#live" if address.endswith("/scan") else "main"
            texts = [tab.page.goto(address) and tab.page.inner_text(part)
                     for tab in (scripted, plain)]  # fmt: skip
            assert texts[0] == texts[1], address


def only_as_a_page(route: Route) -> None:
    """Let an address be gone to, and not be fetched by a script: without one it is a link."""
    if route.request.is_navigation_request():
        route.continue_()
    else:
        route.abort()


def test_a_survey_is_submitted_and_retried_without_javascript(
    service: Service, pages: list[str], browser: Browser
) -> None:
    with watched_tab(browser, java_script_enabled=False) as watched:
        page = watched.page
        page.goto(f"{service.url}/scan")
        page.get_by_label("Models").fill("small:digits_vgg9")
        page.get_by_role("button", name="Submit", exact=True).click()
        expect(page.get_by_text("(small:digits_vgg9)")).to_have_count(1)
        submitted = page.get_by_role("region", name="Submitted surveys").locator("tbody tr")
        before = submitted.count()
        page.get_by_role("button", name="Retry digits_resnet14").click()
        expect(submitted).to_have_count(before + 1)


def test_a_link_shows_what_its_sender_saw(pages: list[str], tab: Watched, browser: Browser) -> None:
    page = tab.page
    page.goto(next(each for each in pages if re.search(r"/models/\w{12}$", each)))
    for _ in range(2):
        page.locator("#table-sites").get_by_role("button", name="affinity").click()
    page.get_by_role("radio", name="graph depth").check()
    expect(page).to_have_url(re.compile("-axis="))
    with watched_tab(browser) as other:
        other.page.set_default_timeout(PAGE_MILLISECONDS)
        other.page.goto(page.url)
        drawing = other.page.locator(".drawing:visible").first
        expect(drawing).to_have_attribute("aria-label", "Figure over graph depth")
        shown, sent = (
            each.locator("#table-sites tbody").inner_text() for each in (page, other.page)
        )
    assert shown == sent
    scores = page.locator("#table-sites tbody tr > :nth-child(3)").all_text_contents()
    assert scores == sorted(scores, reverse=True)


def test_an_open_traceback_stays_open(pages: list[str], tab: Watched) -> None:
    page = tab.page
    page.goto(next(each for each in pages if each.endswith("/scan")))
    traceback = page.locator("details[id^=traceback]").first
    reach(page, traceback.locator("summary"))
    page.keyboard.press("Enter")
    with page.expect_response(re.compile("/scan$")):
        pass
    with page.expect_response(re.compile("/scan$")):
        pass
    assert traceback.evaluate("details => details.open")
    # Files are named from their package on, and those of the survey without their folders.
    assert "file:shape.pth" in page.content()
    assert "/allowed/" not in page.content()
    assert re.search(r'File "[a-z]', traceback.inner_text())
    assert 'File "/' not in traceback.inner_text()
