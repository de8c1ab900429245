"""ray_cluster.yaml and its variants for clouds: valid for Ray's own schema, closed, pinned."""

from __future__ import annotations

import importlib.util
import json
import re
import tomllib
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from tests.style.repository import ROOT


def schema() -> dict[str, Any]:
    # Found without importing Ray, which takes seconds.
    ray = importlib.util.find_spec("ray")
    assert ray is not None
    assert ray.origin is not None
    file = Path(ray.origin).parent / "autoscaler" / "ray-schema.json"
    return dict(json.loads(file.read_text(encoding="utf-8")))


def read(name: str) -> dict[str, Any]:
    return dict(yaml.safe_load((ROOT / name).read_text(encoding="utf-8")))


FILES = ("ray_cluster.yaml", "deploy/aws.yaml", "deploy/gcp.yaml")

VARIANTS = pytest.mark.parametrize("config", [read(name) for name in FILES], ids=FILES)


@VARIANTS
def test_it_fits_the_schema_of_ray(config: dict[str, Any]) -> None:
    jsonschema.Draft7Validator(schema()).validate(config)


def test_a_wrong_key_does_not_fit_the_schema_of_ray() -> None:
    with pytest.raises(jsonschema.ValidationError, match="wrong_key"):
        jsonschema.Draft7Validator(schema()).validate(read(FILES[0]) | {"wrong_key": 1})


@VARIANTS
def test_every_node_starts_with_a_token_and_no_open_dashboard(config: dict[str, Any]) -> None:
    head, worker = config["head_start_ray_commands"], config["worker_start_ray_commands"]
    starts = [line for line in [*head, *worker] if "ray start" in line]
    assert len(starts) == 2
    for line in starts:
        assert "RAY_AUTH_MODE=token" in line
        assert "0.0.0.0" not in line
    assert "--dashboard-host=127.0.0.1" in starts[0]
    assert "~/.ray/auth_token" in config["file_mounts"]


@VARIANTS
def test_no_token_stands_in_the_file(config: dict[str, Any]) -> None:
    text = json.dumps(config)
    assert "RAY_AUTH_TOKEN" not in text
    assert not re.search(r"[0-9a-f]{32}", text)
    assert config["file_mounts"]["~/.ray/auth_token"] == "~/.ray/auth_token"
    assert "chmod 600 ~/.ray/auth_token" in config["setup_commands"]


@VARIANTS
def test_nodes_install_the_pinned_packages_of_this_version(config: dict[str, Any]) -> None:
    assert any("make -C ~/model-zoo-survey install" in line for line in config["setup_commands"])
    version = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    wanted = (
        f'test "$(~/model-zoo-survey/.venv/bin/survey --version)" = {version["project"]["version"]}'
    )
    assert wanted in config["setup_commands"]


@VARIANTS
def test_the_variants_differ_in_their_machines_alone(config: dict[str, Any]) -> None:
    changed = {"provider", "auth", "max_workers", "idle_timeout_minutes"}
    changed |= {"head_node_type", "available_node_types", "head_setup_commands"}
    first = read(FILES[0])
    assert {k: v for k, v in config.items() if k not in changed} == {
        k: v for k, v in first.items() if k not in changed
    }


@pytest.mark.parametrize("name", FILES[1:])
def test_rented_workers_have_gpus_and_one_is_always_there(name: str) -> None:
    config = read(name)
    kinds = dict(config["available_node_types"])
    kinds.pop(config["head_node_type"])
    for kind in kinds.values():
        assert kind["resources"]["GPU"] >= 1
        # A survey looks for machines when it starts.
        assert 1 <= kind["min_workers"] <= kind["max_workers"]
    assert sum(kind["max_workers"] for kind in kinds.values()) <= config["max_workers"]


@pytest.mark.parametrize("name", FILES)
def test_the_file_says_how_a_survey_is_run_on_it(name: str) -> None:
    text = (ROOT / name).read_text(encoding="utf-8")
    assert f"ray up {name}" in text
    assert "survey run zoo.toml --address auto" in text
