"""Options of figures at the command line: what is refused, and where there is nothing to draw."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from jobs.cli.main import app
from tests.analysis.homes import Builder


@pytest.mark.slow(seconds=3)
def test_where_there_is_nothing_to_draw_there_is_no_file(tmp_path: Path) -> None:
    Builder(tmp_path / "home")("r1", [0.4, 0.5])
    file = tmp_path / "figure.pdf"
    asked = ["regress", "--home", str(tmp_path / "home"), "--figure", str(file)]
    result = CliRunner().invoke(app, asked)
    assert result.exit_code == 1
    assert "no figure was written" in result.output
    assert not file.exists()


@pytest.mark.parametrize(
    ("options", "why"),
    [
        (["--width", "column"], "--width goes with --figure"),
        (["--figure", "x.eps"], "must end in"),
        (["--figure", "x.pdf", "--width", "wide"], "inches"),
        (["--figure", "x.pdf", "--y-range", "1", "0"], "lower one first"),
    ],
)
def test_what_cannot_be_drawn_is_refused_first(options: list[str], why: str) -> None:
    result = CliRunner().invoke(app, ["timeline", "--home", "nowhere", *options])
    assert result.exit_code == 2
    assert why in " ".join(result.output.split())


@pytest.mark.slow(seconds=3)
def test_colours_that_there_are_none_of_are_refused_before_anything_is_computed(
    tmp_path: Path,
) -> None:
    Builder(tmp_path / "home")("r1", [0.4, 0.5])
    file = tmp_path / "figure.svg"
    asked = ["timeline", "--home", str(tmp_path / "home"), "--figure", str(file)]
    result = CliRunner().invoke(app, [*asked, "--color-by", "tags.lr"])
    assert (result.exit_code, result.stdout) == (2, "")
    assert "tag 'lr'" in result.stderr
    assert not file.exists()
