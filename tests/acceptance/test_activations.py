"""``survey activations``: tables in every format, figures, and clear refusals."""

import csv
import io
import json

import pyarrow.parquet
import pytest

from analysis.studies.catalogue import STUDIES
from tests.acceptance.command import survey

SMALL = ("activations", "comparison", "--activation", "relu", "--n", "100", "--d", "10")


def test_help_names_every_study_with_its_sentence(tmp_path):
    shown = " ".join(survey("activations", "--help", home=tmp_path).stdout.split())
    for one in STUDIES:
        assert f"{one.name}: {one.sentence}" in shown


def test_every_format_holds_the_same(tmp_path):
    (row,) = json.loads(survey(*SMALL, "--format", "json", home=tmp_path).stdout)
    assert row["activation"] == "relu"
    assert row["reason"] is None
    text = survey(*SMALL, "--format", "csv", home=tmp_path).stdout
    (read,) = csv.DictReader(io.StringIO(text))
    assert float(read["affinity"]) == row["affinity"]
    written = survey(*SMALL, "-o", tmp_path / "s.parquet", home=tmp_path)
    assert "1 row written to" in written.stderr
    assert pyarrow.parquet.read_table(tmp_path / "s.parquet").to_pylist()[0] == row
    assert "0.6" in survey(*SMALL, home=tmp_path).stdout
    assert not (tmp_path / "signatures.duckdb").exists()


def test_a_missing_score_is_null_and_has_its_reason(tmp_path):
    ended = survey(
        *("activations", "ranges", "--activation", "relu", "--mean", "-20", "--deviation", "0.1"),
        *("--n", "50", "--d", "3", "--format", "json"),
        home=tmp_path,
    )
    (row,) = json.loads(ended.stdout)
    assert row["affinity"] is None
    assert "the same for every image" in row["reason"]
    assert "mean 1 of 1" in ended.stderr


@pytest.mark.parametrize(
    ("ending", "beginning"),
    [("svg", b"<svg"), ("png", b"\x89PNG"), ("pdf", b"%PDF"), ("html", b"<!DOCTYPE html>")],
)
def test_a_figure_is_drawn(ending, beginning, tmp_path):
    path = tmp_path / f"figure.{ending}"
    ended = survey(*SMALL, "--figure", path, home=tmp_path)
    assert "figure written to" in ended.stderr
    assert path.read_bytes().lstrip().startswith(beginning)


@pytest.mark.parametrize(
    ("arguments", "message", "hint"),
    [
        (("activations", "range"), "unknown study 'range'", "did you mean ranges"),
        (
            ("activations", "comparison", "--activation", "gelo"),
            "unknown activation 'gelo'",
            "gelu",
        ),
        (
            ("activations", "comparison", "--degree", "2"),
            "the study comparison takes no --degree",
            "it takes --activation",
        ),
        (
            ("activations", "comparison", "--seed", "1", "--seed", "2"),
            "takes one --seed, 2 were given",
            "",
        ),
        (("activations", "seeds", "--model", "resnet50"), "unknown bundled network", ""),
        (
            ("activations", "comparison", "--figure", "f.jpg"),
            "must end in .svg, .png, .pdf or .html",
            "",
        ),
        (("activations", "comparison", "--n", "1"), "n is 1", ""),
    ],
)
def test_what_cannot_be_done_is_said(arguments, message, hint, tmp_path):
    ended = survey(*arguments, home=tmp_path, code=2)
    assert message in ended.stderr
    assert hint in ended.stderr
    assert not ended.stdout
