"""Tables and texts cut to a width: nothing is wider, no number is cut, what is gone is named."""

from __future__ import annotations

import io

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.console import Console

from jobs.fitting import cut_end, cut_lines, cut_text, cut_title, cut_widths
from jobs.operations.table_formats import table_text
from jobs.scan.progress_display import _bars

WIDTHS = st.integers(1, 60)
TEXTS = st.text(st.sampled_from("ab/ .:\u4e2d\u00e9"), max_size=80)

ROWS = [
    {
        "run_id": f"{seed:012x}",
        "architecture": f"small:digits_resnet{seed}",
        "checkpoint": f"file:/data/someone/{'deep/' * 20}seed{seed}/epoch_{seed}.pth",
        "dataset": "folder:/data/photographs",
        "state": "failed",
        "images": 1797,
        "top1": 0.98765,
        "suspicion": None,
        "error": f"no{seed} " + "such file " * 30,
    }
    for seed in (20, 21)
]
NUMERIC = {name: name in ("images", "top1") for name in ROWS[0]}


@given(TEXTS, WIDTHS)
def test_no_text_is_wider_than_its_room(text: str, width: int) -> None:
    for cut in (cut_text, cut_end, cut_title):
        assert cell_len(cut(text, width)) <= width
        assert cut(text, max(width, cell_len(text))) == text
    assert all(cell_len(line) <= width for line in cut_lines(text, width))


def test_a_path_keeps_its_name() -> None:
    path = "file:/data/someone/seed0/epoch_30.pth"
    assert cut_text(path, 20) == "…/seed0/epoch_30.pth"
    assert cut_text(path, 14) == "…/epoch_30.pth"
    assert cut_text(path, 10) == "epoch_30.…"
    assert cut_title(f"small:net / {path} / digits", 40).split(" / ")[1].endswith("/epoch_30.pth")


@given(st.lists(st.integers(1, 50), min_size=1, max_size=8), st.integers(1, 200))
def test_the_widest_columns_are_cut_first(widths: list[int], room: int) -> None:
    least = [min(each, 10) for each in widths]
    cut = cut_widths(widths, least, room)
    assert all(low <= c <= w for low, c, w in zip(least, cut, widths, strict=True))
    assert sum(cut) <= max(room, sum(least))
    narrower = [c for c, w in zip(cut, widths, strict=True) if c < w]
    # What is cut is as wide as any column that is not.
    assert all(c >= max(cut) for c in narrower if c > 10)
    assert sum(widths) > room or cut == widths


@pytest.mark.parametrize("width", [30, 60, 80, 120, 200])
def test_a_table_fits_and_names_what_is_gone(width: int) -> None:
    text = table_text(ROWS, NUMERIC, width)
    lines = text.splitlines()
    assert max(map(cell_len, lines)) <= width
    heads = lines[0].split()
    assert heads[0] == "run_id"
    assert all(row["run_id"] in text for row in ROWS)
    assert "error" in heads
    for name in NUMERIC:
        assert name in " ".join(lines)
    # A number is whole or not there.
    assert ("top1" in heads) == ("0.9877" in text.split("in every row")[0])


@pytest.mark.parametrize("width", [40, 60, 80, 120])
def test_a_long_title_leaves_room_for_its_bar_and_numbers(width: int) -> None:
    console = Console(file=io.StringIO(), width=width, color_system=None)
    bars = _bars(console)
    for row in ROWS:
        bars.add_task(f"small:net / {row['checkpoint']} / digits", total=29, completed=29)
    with console.capture() as captured:
        console.print(bars.get_renderable())
    lines = captured.get().splitlines()
    assert len(lines) == len(ROWS)
    assert max(map(cell_len, lines)) <= width
    assert all("\u2501" * 6 in line and "29/29" in line for line in lines)
    assert width < 80 or "epoch_2" in lines[0]


def test_a_sentence_is_broken_and_not_cut() -> None:
    hint = "a cluster on the network needs one: ray get-auth-token --generate makes it"
    rows = [{"check": "token", "what to do": hint}, {"check": "disk", "what to do": None}]
    lines = table_text(rows, {"check": False, "what to do": False}, 40).splitlines()
    assert max(map(len, lines)) <= 40
    assert " ".join(line[7:] for line in lines[2:-1]) == hint
    assert lines[-1].split() == ["disk", "-"]


def test_what_holds_in_every_row_is_told_once() -> None:
    text = table_text(ROWS, NUMERIC, 80)
    assert "dataset folder:/data/photographs, state failed, images 1797, top1 0.98765" in " ".join(
        text.split()
    )
    assert "suspicion" not in text.splitlines()[0]


@pytest.mark.parametrize("width", [30, 80, 120])
def test_of_a_single_row_nothing_is_lost(width: int) -> None:
    text = table_text(ROWS[:1], NUMERIC, width)
    assert max(map(cell_len, text.splitlines())) <= width
    told = " ".join(text.split())
    assert all(f"{name} " in told for name in NUMERIC)
    assert all(
        each in told for each in ("failed", "1797", "0.98765", str(ROWS[0]["error"]).strip())
    )


def test_without_a_width_nothing_is_cut() -> None:
    text = table_text(ROWS, NUMERIC)
    assert len(text.splitlines()) == 2 + len(ROWS)
    for row in ROWS:
        assert str(row["checkpoint"]) in text
        assert str(row["error"]).strip() in text


def test_a_share_of_images_has_as_many_decimals_as_other_numbers() -> None:
    rows = [{"top1": 1.0, "rounded": 0.123456}, {"top1": 54 / 512, "rounded": 0.25}]
    lines = table_text(rows, {"top1": True, "rounded": True}, 80).splitlines()
    assert [line.split() for line in lines[2:]] == [["1.0000", "0.123456"], ["0.1055", "0.250000"]]
    assert table_text([{"p": 2**-15}], {"p": True}, 80).split()[-1] == "3.052e-05"
