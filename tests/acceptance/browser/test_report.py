"""The report of a survey in a real browser: drawn, quiet, offline, and open to every reader."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from playwright.sync_api import Browser

from analysis.report import write_report
from catalog.models.cifar import CifarSource
from tests.acceptance.browser.tabs import Watched, opened_browser, watched_tab
from tests.acceptance.command import rows, survey
from tests.analysis.homes import Builder
from tests.analysis.paper.test_compare import store_checkpoints, store_zoo

#: The first test measures 40 networks, which takes minutes where others compute beside it.
pytestmark = [
    pytest.mark.slow(seconds=180),
    pytest.mark.long,
    pytest.mark.timeout(2400),
]

LOCAL = ("--runner", "local", "--threads", "1")


def measure(home: Path, *arguments: str, limit: int = 96, code: int = 0) -> None:
    few = ("--limit", str(limit), "--images-per-score", "48")
    survey("run", *arguments, *few, *LOCAL, home=home, code=code)


def spoiled(folder: Path) -> list[str]:
    """Write weights that give no score, and weights that do not fit."""
    state = CifarSource().get("digits_resnet14").build().state_dict()
    nan = {name: v * float("nan") if v.is_floating_point() else v for name, v in state.items()}
    torch.save(nan, folder / "nan <b>&amp;.pth")
    torch.save({**state, next(iter(state)): torch.zeros(3, 3)}, folder / "shape.pth")
    return [str(folder / "nan <b>&amp;.pth"), str(folder / "shape.pth")]


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The report of 40 models, of which one failed and one has no score."""
    folder = tmp_path_factory.mktemp("browser")
    home, out = folder / "home", folder / "report"
    # On fewer images their accuracies are all alike, and there is nothing to regress.
    bundled = ("-m", "small:digits_*", "-c", "bundled", "-c", "init:0")
    measure(home, *bundled, "-d", "digits:heldout", limit=355)
    measure(home, "-m", "small:digits_*14", "-m", "small:digits_vgg*", "-d", "random")
    pairs = [f"small:cifar_{shape}{depth}" for shape in ("resnet", "plain") for depth in (8, 14)]
    measure(home, *(f"-m{name}" for name in pairs), *(f"-cinit:{seed}" for seed in range(3)))
    images = ("alexnet", "mnasnet0_5", "squeezenet1_0", "squeezenet1_1", "mobilenet_v3_small")
    names = [f"-mtorchvision:{name}" for name in (*images, "shufflenet_v2_x0_5")]
    measure(home, *names, "-c", "init:0", "--micro-batch", "16")
    bad = [f"-cfile:{path}" for path in spoiled(folder)]
    measure(home, "-m", "small:digits_resnet14", *bad, code=1)
    statuses = [row["status"] for row in rows("SELECT status FROM runs", home)]
    assert len(statuses) == 40
    assert statuses.count("failed") == 1
    ended = survey("report", "--untrained", "--out", out, "--title", "Forty <networks>", home=home)
    assert ended.stdout.strip() == str(out / "index.html")
    assert "about 40 runs, 1 of them failed" in ended.stderr
    return out


@pytest.fixture(scope="module")
def printed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The report of the paper's networks and checkpoints, built to have its printed numbers."""
    folder = tmp_path_factory.mktemp("printed")
    with Builder(folder / "home") as store:

        def batches(run_id: str, affinity: Any, *rest: Any, **values: Any) -> None:
            # Two that differ, so that there is an error and something to draw from.
            by_batch = np.clip(affinity + np.array([[-0.01], [0.01]]), 0, 1)
            store(run_id, by_batch, *rest, **values)

        store_zoo(batches)
        store_checkpoints(batches)
    return write_report(folder / "home", folder / "report").folder


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with opened_browser() as opened:
        yield opened


@pytest.fixture
def tab(browser: Browser) -> Iterator[Watched]:
    size: Any = {"width": 1280, "height": 900}
    with watched_tab(browser, offline=True, viewport=size) as watched:
        yield watched


#: The size of every drawing that is shown, and how much is in it.
DRAWN = """() => [...document.querySelectorAll("figure")].map(figure => {
  const shown = [...figure.querySelectorAll("svg")].filter(svg => svg.checkVisibility());
  return shown.map(svg => {
    const box = svg.getBoundingClientRect();
    const marks = svg.querySelectorAll(".mark-symbol path, .mark-line path, .mark-rect path,"
      + " .mark-rule line, .mark-text text, .mark-area path, .mark-tick path");
    return [box.width, box.height, marks.length];
  });
})"""


def drawn_figures(report: Path, tab: Watched) -> int:
    """Visit every page; return how many figures there are, each of them drawn."""
    figures = 0
    for path in sorted(report.rglob("*.html")):
        tab.page.goto(path.as_uri())
        for shown in tab.page.evaluate(DRAWN):
            ((width, height, marks),) = shown
            assert width > 100, path
            assert height > 60, path
            assert marks > 5, path
            figures += 1
        assert tab.page.locator("h1").count() == 1
    assert figures == len(list((report / "figures").iterdir()))
    assert tab.problems == []
    inside = report.as_uri()
    assert [url for url in tab.requests if not url.startswith(inside)] == []
    return figures


def test_every_figure_is_drawn_and_nothing_else_is_asked_for(report: Path, tab: Watched) -> None:
    assert drawn_figures(report, tab) > 45


def test_the_paper_and_checkpoints_are_drawn_too(printed: Path, tab: Watched) -> None:
    assert drawn_figures(printed, tab) > 60
    tab.page.goto((printed / "paper.html").as_uri())
    numbers = tab.page.locator("#table-paper tbody tr")
    assert numbers.count() > 200
    assert numbers.filter(has_text="Figure 4").count() == 10
    # A panel each for Tables 1 to 3 and Figure 4.
    assert tab.page.locator("figure svg text").filter(has_text="(n = ").count() == 4
    tab.page.goto((printed / "checkpoints.html").as_uri())
    assert tab.page.locator("#table-checkpoints tbody tr").filter(has_text="resnet50").count() == 12
    assert tab.page.locator("figure svg text").filter(has_text="20 checkpoints").count() == 1


def test_every_question_has_a_page(report: Path) -> None:
    made = {path.stem for path in report.glob("*.html")}
    assert made >= {"clusters", "correlations", "regressions", "timeline", "distributions"}
    assert made >= {"residual", "datasets", "training", "missing", "provenance", "depth"}


def looked_at(report: Path) -> list[Path]:
    """Return the pages that differ in kind."""
    models = sorted((report / "models").iterdir())
    odd = [path for path in models if "nan-b" in path.name or "shape-pth" in path.name]
    return [*sorted(report.glob("*.html")), models[0], *odd]


def shut_out(pages: list[Path], tab: Watched, width: int) -> str:
    """Return what axe finds at pages of this width; each is as wide as the window."""
    tab.page.set_viewport_size({"width": width, "height": 800})
    return "".join(tab.shut_out(path.as_uri()) for path in pages)


@pytest.mark.parametrize("width", [1280, 380])
def test_no_reader_is_shut_out(report: Path, tab: Watched, width: int) -> None:
    assert shut_out(looked_at(report), tab, width) == ""


@pytest.mark.parametrize("width", [1280, 380])
def test_nor_from_the_paper_and_checkpoints(printed: Path, tab: Watched, width: int) -> None:
    assert shut_out([printed / "paper.html", printed / "checkpoints.html"], tab, width) == ""


#: What is printed of a page, and ends to the right of the paper.
CUT_OFF = """() => [...document.querySelectorAll("table, svg, pre, h1, h2, p")]
  .filter(shown => shown.checkVisibility())
  .filter(shown => shown.getBoundingClientRect().right > document.documentElement.clientWidth + 1)
  .map(shown => shown.tagName + " " + shown.id)"""


def test_paper_cuts_nothing_off(report: Path, printed: Path, tab: Watched) -> None:
    # A4 between margins of 15 mm, in pixels.
    tab.page.set_viewport_size({"width": 680, "height": 1008})
    tab.page.emulate_media(media="print")
    for path in (*looked_at(report), *sorted(printed.glob("*.html"))):
        tab.page.goto(path.as_uri())
        assert tab.page.evaluate(CUT_OFF) == [], path
        assert not tab.page.locator("nav").first.is_visible()


def test_depth_is_chosen_by_key(report: Path, tab: Watched) -> None:
    drawings = tab.page.locator(".drawings > .drawing")
    # No branch: the site is the graph depth but for 1.
    tab.page.goto(sorted((report / "models").glob("digits-resnet20*"))[0].as_uri())
    assert drawings.count() == 2
    tab.page.goto(sorted((report / "models").glob("squeezenet1-1*"))[0].as_uri())
    assert drawings.count() == 3
    for place in range(3):
        assert [drawings.nth(each).is_visible() for each in range(3)] == [
            each == place for each in range(3)
        ]
        tab.page.locator(".choice input").nth(place).focus()
        tab.page.keyboard.press("ArrowRight")


#: Of each choice, whether its button and its label are side by side within the window.
TOGETHER = """() => [...document.querySelectorAll(".choice input")].map(input => {
  const [button, label] = [input, input.labels[0]].map(each => each.getBoundingClientRect());
  return button.top < label.bottom && button.bottom > label.top && button.right <= label.left
    && label.left - button.right < 20 && label.right <= document.documentElement.clientWidth;
})"""


@pytest.mark.parametrize("width", [320, 375, 430, 700, 1280])
def test_a_choice_of_depth_stands_beside_its_button(report: Path, tab: Watched, width: int) -> None:
    tab.page.set_viewport_size({"width": width, "height": 800})
    tab.page.goto(sorted((report / "models").glob("squeezenet1-1*"))[0].as_uri())
    assert tab.page.evaluate(TOGETHER) == [True] * 3


def test_a_heading_sorts_its_column(report: Path, tab: Watched) -> None:
    tab.page.goto((report / "index.html").as_uri())
    heading = tab.page.get_by_role("columnheader", name="median")
    column = heading.evaluate("heading => heading.cellIndex") + 1
    cells = tab.page.locator(f"#table-models tbody tr > :nth-child({column})")

    def keys() -> list[str]:
        result: list[str] = cells.evaluate_all("cells => cells.map(cell => cell.dataset.key)")
        return result

    heading.get_by_role("button").focus()
    for key, sign in (("Enter", 1), ("Space", -1)):
        tab.page.keyboard.press(key)
        known = [sign * float(value) for value in keys() if value]
        assert known == sorted(known)
        # What has no value comes last, whichever way.
        assert [bool(value) for value in keys()] == [True] * 38 + [False] * 2
    assert heading.get_attribute("aria-sort") == "descending"


def test_without_its_script_a_page_shows_everything(report: Path, browser: Browser) -> None:
    context = browser.new_context(java_script_enabled=False, offline=True)
    page = context.new_page()
    page.goto((report / "index.html").as_uri())
    assert page.locator("#table-models tbody tr").count() == 40
    assert page.locator("svg:visible").count() == page.locator("figure").count()
    context.close()
