"""Distances between models: those of each pair, the normalisations, and what is kept of them."""

from __future__ import annotations

import multiprocessing
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from analysis.similarity import distances as module
from analysis.similarity.distance_cache import FILE_NAME, DistanceCache, digest
from analysis.similarity.distances import SHOWN, distance_matrix, distances
from analysis.similarity.signature_curve import curves, normalised
from analysis.statistics import dtw
from survey.errors import SettingsError, UnknownName
from tests.analysis.similarity.made_curves import at_home, frame, measure_at_home, random_scores

NAN = float("nan")
NORMALISATIONS = ("raw", "length", "relative")


@pytest.fixture
def warped(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """Count the pairs that are warped, a number a call."""
    counts: list[int] = []
    true = dtw.squared_sums

    def counted(curves: Any, pairs: Any, *options: Any) -> Any:
        counts.append(len(pairs))
        return true(curves, pairs, *options)

    monkeypatch.setattr(dtw, "squared_sums", counted)
    return iter([counts]).__next__()


def pairwise(series: list[NDArray[np.float64]], band: int | None = None) -> NDArray[np.float64]:
    """Return the distance of each pair, one after another, as it is held against tslearn's."""
    return np.array([[dtw.dtw(x, y, band) for y in series] for x in series])


@pytest.mark.parametrize("band", [None, 0, 4])
def test_raw_distances_are_those_of_each_pair(band: int | None) -> None:
    signatures = frame(random_scores(1, 12))
    theirs = pairwise([curve.values for curve in curves(signatures)], band)
    assert np.abs(distance_matrix(signatures, "raw", band).values - theirs).max() <= 1e-9


def test_relative_distances_are_those_of_curves_over_depth() -> None:
    signatures = frame(random_scores(2, 9))
    series = [normalised(curve.values, "relative") for curve in curves(signatures)]
    theirs = pairwise(series)
    assert np.abs(distance_matrix(signatures, "relative").values - theirs).max() <= 1e-9


def test_length_divides_the_sum_by_both_lengths() -> None:
    signatures = frame(random_scores(3, 9))
    sizes = np.array([curve.values.size for curve in curves(signatures)])
    raw, length = (distance_matrix(signatures, name).values for name in ("raw", "length"))
    assert length == pytest.approx(np.sqrt(raw**2 / (sizes[:, None] + sizes[None, :])))


@pytest.mark.parametrize("normalisation", NORMALISATIONS)
def test_a_matrix_is_symmetric_and_its_table_holds_each_pair_once(normalisation: Any) -> None:
    signatures = frame(random_scores(4, 7))
    matrix = distance_matrix(signatures, normalisation)
    assert (matrix.values == matrix.values.T).all()
    assert (np.diag(matrix.values) == 0).all()
    table = distances(signatures, normalisation)
    assert list(table.columns) == [
        *("run_id", "model", "family", "other_run_id", "other_model", "other_family", "distance")
    ]
    assert len(table) == 21
    for row in table.itertuples():
        assert matrix.place(row.model) < matrix.place(row.other_model)
        assert row.distance == matrix.values[matrix.place(row.model), matrix.place(row.other_model)]
    assert table.attrs == {"selection": "all models", "normalisation": normalisation, "band": None}


def test_models_keep_their_distances_in_any_order() -> None:
    signatures = frame(random_scores(5, 6))
    turned = signatures.iloc[::-1]
    ours, theirs = distance_matrix(signatures), distance_matrix(turned)
    assert list(theirs.runs["model"]) == list(ours.runs["model"])[::-1]
    assert (theirs.values == ours.values[::-1, ::-1]).all()


def test_missing_sites_and_runs_are_counted() -> None:
    signatures = frame({"a": [0.1, NAN, 0.3], "b": [0.2, 0.3], "none": [NAN]})
    matrix = distance_matrix(signatures, "raw")
    assert matrix.runs[["model", "sites", "left_out"]].to_numpy().tolist() == [
        ["a", 2, 1],
        ["b", 2, 0],
    ]
    assert matrix.without == ("none",)
    assert matrix.values[0, 1] == pytest.approx(0.1)


def test_few_models() -> None:
    assert distance_matrix(frame({"a": [0.1]})).values.tolist() == [[0.0]]
    assert len(distances(frame({"a": [0.1]}))) == 0
    with pytest.raises(SettingsError, match="none of 2 runs has a site"):
        distances(frame({"a": [NAN], "b": [NAN, NAN]}))
    with pytest.raises(SettingsError, match="there are no runs"):
        distances(frame({"a": [0.1]}).iloc[:0])
    with pytest.raises(SettingsError, match="band is -2"):
        distances(frame({"a": [0.1]}), band=-2)
    with pytest.raises(SettingsError, match="'euclid', must be one of"):
        distances(frame({"a": [0.1]}), "euclid")  # type: ignore[arg-type]


def test_more_models_than_memory_has_room_for_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_RUNS", 2)
    assert len(distance_matrix(frame({"a": [0.1, 0.2], "b": [0.3, 0.4]}))) == 2
    with pytest.raises(SettingsError, match="3 runs: distances are between at most 2"):
        distance_matrix(frame({"a": [0.1], "b": [0.2], "c": [0.3]}))


def test_a_model_is_found_by_label_id_and_beginning() -> None:
    matrix = distance_matrix(frame({"a": [0.1], "ab": [0.2], "b": [0.3]}))
    assert [matrix.place(name) for name in ("ab", "run-ab", "b", "run-b", "a")] == [1, 1, 2, 2, 0]
    with pytest.raises(SettingsError, match="begins the ids of 3 runs"):
        matrix.place("run")
    with pytest.raises(UnknownName, match="nobody"):
        matrix.place("nobody")
    named = frame({"a": [0.1], "b": [0.2], "c": [0.3]})
    named["architecture"] = named["model"].map({"a": "vgg", "b": "net", "c": "net"})
    matrix = distance_matrix(named)
    assert matrix.place("vgg") == 0
    with pytest.raises(SettingsError, match="'net' has 2 runs: b, c"):
        matrix.place("net")


def test_equal_curves_are_warped_once(warped: list[int]) -> None:
    same = [0.1, 0.5, 0.2]
    matrix = distance_matrix(frame({"a": same, "b": [0.4], "c": same, "d": same}), "raw")
    assert warped == [1]
    assert (matrix.values[np.ix_([0, 2, 3], [0, 2, 3])] == 0).all()
    assert matrix.values[1, [0, 2, 3]] == pytest.approx([0.3741657] * 3)


def test_a_new_model_costs_one_row(tmp_path: Path, warped: list[int]) -> None:
    whole = at_home(tmp_path, 9)
    first = whole[whole["model"] != "m4"]
    fresh = distance_matrix(whole, cache=False).values
    for wanted in (first, whole, whole, first.iloc[::-1]):
        result = distance_matrix(wanted)
        places = [int(model[1:]) for model in result.runs["model"]]
        assert (result.values == fresh[np.ix_(places, places)]).all()
    # The last two ask for what is known, and nothing is warped.
    assert warped == [36, 28, 8]
    with closing(sqlite3.connect(tmp_path / "cache" / FILE_NAME)) as file:
        (stored,) = file.execute("SELECT sum(length(squares)) / 8 FROM known").fetchone()
        rows = file.execute("SELECT count(*) FROM known WHERE length(squares) = 64").fetchone()
    assert stored == 36
    assert rows == (1,)


def test_what_was_measured_anew_is_computed_anew(tmp_path: Path, warped: list[int]) -> None:
    signatures = at_home(tmp_path, 6)
    distance_matrix(signatures)
    signatures.loc[signatures["model"] == "m3", "affinity"] *= 0.99
    changed = distance_matrix(signatures).values
    assert warped == [15, 5]
    assert (changed == distance_matrix(signatures, cache=False).values).all()


def test_bands_and_normalisations_are_kept_apart(tmp_path: Path, warped: list[int]) -> None:
    signatures = at_home(tmp_path, 6)
    asked = [(name, band) for name in NORMALISATIONS for band in (None, 1, 0)]
    for name, band in (*asked, *asked):
        result = distance_matrix(signatures, name, band).values  # type: ignore[arg-type]
        alone = distance_matrix(signatures, name, band, cache=False).values  # type: ignore[arg-type]
        assert (result == alone).all()
    # Raw and length have the same sums: two of the nine cost nothing even at first, a band each.
    assert len(warped) - 2 * len(asked) == 6


def damage_all(path: Path) -> None:
    path.write_bytes(b"no database at all" * 100)


def cut_short(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:5000])


def empty(path: Path) -> None:
    path.write_bytes(b"")


def blank_pages(path: Path) -> None:
    whole = path.read_bytes()
    path.write_bytes(whole[:4096] + bytes(len(whole) - 4096))


def change_numbers(path: Path) -> None:
    with closing(sqlite3.connect(path)) as file:
        file.execute("UPDATE known SET squares = zeroblob(length(squares))")
        file.commit()


def other_types(path: Path) -> None:
    with closing(sqlite3.connect(path)) as file:
        file.execute("UPDATE known SET squares = 'text', others = 5 WHERE rowid = 1")
        file.commit()


def another_table(path: Path) -> None:
    path.unlink()
    with closing(sqlite3.connect(path)) as file:
        file.execute("CREATE TABLE known (other TEXT)")


@pytest.mark.parametrize(
    "damage",
    [damage_all, cut_short, empty, blank_pages, change_numbers, other_types, another_table],
)
def test_a_damaged_file_means_computing(tmp_path: Path, damage: Callable[[Path], None]) -> None:
    signatures = at_home(tmp_path, 9)
    expected = distance_matrix(signatures).values
    damage(tmp_path / "cache" / FILE_NAME)
    for _ in range(3):
        assert (distance_matrix(signatures).values == expected).all()


def test_after_damage_the_file_serves_again(tmp_path: Path, warped: list[int]) -> None:
    signatures = at_home(tmp_path, 6)
    distance_matrix(signatures)
    damage_all(tmp_path / "cache" / FILE_NAME)
    distance_matrix(signatures)
    distance_matrix(signatures)
    assert warped == [15, 15]


def test_a_home_that_cannot_be_written_means_computing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = distance_matrix(at_home(tmp_path, 5), cache=False).values
    (tmp_path / "cache").write_text("a file, so there can be no folder")
    assert (distance_matrix(at_home(tmp_path, 5)).values == expected).all()
    gone = tmp_path / "no" / "such" / "home"
    assert (distance_matrix(at_home(gone, 5)).values == expected).all()
    assert not gone.exists()

    def refuse(*_: object) -> None:
        raise sqlite3.OperationalError("attempt to write a readonly database")

    monkeypatch.setattr(DistanceCache, "_write", refuse)
    (tmp_path / "other").mkdir()
    assert (distance_matrix(at_home(tmp_path / "other", 5)).values == expected).all()


def test_a_file_that_may_only_be_read_still_serves(tmp_path: Path, warped: list[int]) -> None:
    distance_matrix(at_home(tmp_path, 5))
    path = tmp_path / "cache" / FILE_NAME
    path.chmod(0o444)
    path.parent.chmod(0o555)
    distance_matrix(at_home(tmp_path, 5))
    path.parent.chmod(0o755)
    assert warped == [10]


@pytest.mark.slow(seconds=5)
@pytest.mark.long
def test_many_processes_may_use_it_at_once(tmp_path: Path, warped: list[int]) -> None:
    started = multiprocessing.get_context("spawn")
    processes = [
        started.Process(target=measure_at_home, args=(tmp_path, 8, seed)) for seed in (0, 1, 0)
    ]
    for process in processes:
        process.start()
    for process in processes:
        process.join(300)
    assert [process.exitcode for process in processes] == [0] * 3
    for seed in (0, 1):
        signatures = at_home(tmp_path, 8, seed)
        result = distance_matrix(signatures).values
        assert warped == [28] * seed
        assert (result == distance_matrix(signatures, cache=False).values).all()


def test_a_digest_knows_a_curve_by_its_values() -> None:
    whole = np.arange(6.0)
    assert digest(whole[::2]) == digest(np.array([0.0, 2.0, 4.0]))
    assert digest(whole[:5]) != digest(whole)


def test_a_notebook_shows_the_matrix_with_its_names_and_what_it_was_made_from() -> None:
    sites = frame({"<a>": [0.1, 0.2], "b": [0.5, 0.9]})
    sites.attrs["selection"] = "model <a> or b"
    made = distance_matrix(sites, "raw", cache=False)
    shown = made._repr_html_()
    distance = f"{made.values[0, 1]:.3f}"
    assert shown.count(f"<td>{distance}</td>") == 2
    assert "<th>&lt;a&gt;</th>" in shown
    assert "<a>" not in shown
    words = f"Raw DTW, 2 models: {distance} to {distance}"
    assert repr(made) == f"<DistanceMatrix: {words}>"
    assert f"<caption>{words}. model &lt;a&gt; or b; 2 runs (ids hash to " in shown


def test_a_large_matrix_is_cut_in_a_notebook_and_says_so() -> None:
    rng = np.random.default_rng(0)
    made = distance_matrix(frame({f"m{n}": rng.random(5) for n in range(25)}), "relative", 3)
    shown = made._repr_html_()
    assert shown.count("<tr") == 1 + SHOWN
    assert "Relative DTW, band 3, 25 models: " in shown
    assert f"the first {SHOWN} are shown" in shown
    assert "Relative DTW, 1 model>" in repr(distance_matrix(frame({"a": [0.1]})))
