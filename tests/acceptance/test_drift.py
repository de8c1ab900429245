"""Drift from end to end: a perturbed layer is found, unchanged repeats in other orders are not."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from safetensors.torch import load_file, save_file

from catalog.open_home import open_home
from catalog.store.writer import Writer
from tests.acceptance.command import rows, survey
from tests.catalog.records import run

WEIGHTS = Path(__file__).parents[2] / "catalog" / "zoo" / "weights"
MODEL, LAYER = "digits_vgg7", "stages.1.1.conv.weight"
OPTIONS = ("--images-per-score", "64", "--runner", "local")
REPEATS = 20


def saved(path: Path, factor: float = 1.0) -> Path:
    """Write the network's weights with one layer perturbed."""
    weights = load_file(WEIGHTS / f"{MODEL}.safetensors")
    save_file({**weights, LAYER: weights[LAYER] * factor}, path)
    return path


def test_one_perturbed_layer_is_found_and_why_it_is_measured_again(tmp_path: Path) -> None:
    home, path = tmp_path / "home", tmp_path / "net.safetensors"
    what = ("-m", f"small:{MODEL}", "-c", f"file:{saved(path)}", "--limit", "512")
    assert "1 new" in survey("run", *what, *OPTIONS, home=home).stderr
    assert "run appeared" in survey("drift", home=home).stdout
    saved(path, 1.05)
    (planned,) = json.loads(
        survey("plan", *what, *OPTIONS[:2], "--format", "json", home=home).stdout
    )
    assert planned["why"].startswith("checkpoint changed: sha256 ")
    assert "1 stale (checkpoint changed 1)" in survey("run", *what, *OPTIONS, home=home).stderr
    result = survey("drift", "--all", "--format", "json", home=home, code=1)
    verdicts = {row["site_name"]: row["verdict"] for row in json.loads(result.stdout)}
    # Nothing before the layer changed; the activation behind it did, and those that follow may.
    assert [verdicts[f"stages.{at}.relu#1"] for at in ("0.0", "0.1", "1.0")] == ["unchanged"] * 3
    assert verdicts["stages.1.1.relu#1"] == "moved"
    survey("drift", "--tolerance", "0.01", home=home)
    first, second = (row["run_id"] for row in rows("FROM runs ORDER BY finished_at", home))
    assert "stages.1.1.relu#1" in survey("drift", "--pair", first, second, home=home, code=1).stdout


@pytest.mark.long
def test_unchanged_repeats_in_other_orders_are_no_drift(tmp_path: Path) -> None:
    """Other orders of which the first images are other images, too: the harder case."""
    home, declared = tmp_path / "home", tmp_path / "orders.toml"
    orders = "".join(
        f'[[datasets]]\nname = "digits"\nlimit = 320\norder_seed = {seed}\n'
        for seed in range(REPEATS + 1)
    )
    declared.write_text(f'[[models]]\nname = "small:{MODEL}"\n{orders}')
    survey("run", declared, *OPTIONS, home=home)
    seeds = rows("SELECT order_seed, dataset FROM runs ORDER BY order_seed", home)
    assert [row["order_seed"] for row in seeds] == list(range(REPEATS + 1))
    assert seeds[0]["dataset"] == "digits[:320]"
    assert seeds[3]["dataset"] == "digits[:320 order 3]"
    ids = [row["run_id"] for row in rows("FROM runs ORDER BY order_seed", home)]
    for repeat in ids[1:]:
        survey("drift", "--pair", ids[0], repeat, "--tolerance", "0", home=home)
    chain: list[dict[str, Any]] = json.loads(
        survey(
            *("drift", "--any-order", "--since", "1d", "--tolerance", "0", "--all"),
            *("--format", "json"),
            home=home,
        ).stdout
    )
    assert sum(row["verdict"] == "stayed" for row in chain) == REPEATS * 6


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--since", "yesterday"), "no date, time or duration"),
        (("--since", "2999-01-01"), "lies in the future"),
        (("--level", "1"), "between 0 and 1"),
        (("--pair", "a", "b", "--since", "1d"), "--pair excludes"),
        (("--pair", "zzz", "yyy"), "unknown run"),
        (("--model", "nothing"), "no run fits the model 'nothing'"),
    ],
)
def test_wrong_questions_are_refused(
    tmp_path: Path, arguments: tuple[str, ...], words: str
) -> None:
    with Writer.open(open_home(tmp_path, create=True)) as writer:
        for name in ("r1", "r2"):
            writer.write([run(name, "done", finished_at=datetime.now(UTC))])
    assert words in survey("drift", *arguments, home=tmp_path, code=2).stderr
