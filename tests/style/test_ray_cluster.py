"""ray_cluster.yaml: valid for Ray's own schema, closed to the network, installed from the lock."""

from __future__ import annotations

import importlib.util
import json
import re
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


def text() -> str:
    return (ROOT / "ray_cluster.yaml").read_text(encoding="utf-8")


def active() -> dict[str, Any]:
    return dict(yaml.safe_load(text()))


def on_amazon() -> dict[str, Any]:
    """Return what the file says once its commented section takes the place of the active one."""
    lines = re.findall(r"^#~ ?(.*)$", text(), re.MULTILINE)
    section = yaml.safe_load("\n".join(lines))
    return active() | section


VARIANTS = pytest.mark.parametrize("config", [active(), on_amazon()], ids=["local", "aws"])


@VARIANTS
def test_it_fits_the_schema_of_ray(config: dict[str, Any]) -> None:
    jsonschema.Draft7Validator(schema()).validate(config)


def test_a_wrong_key_does_not_fit_the_schema_of_ray() -> None:
    with pytest.raises(jsonschema.ValidationError, match="wrong_key"):
        jsonschema.Draft7Validator(schema()).validate(active() | {"wrong_key": 1})


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
def test_nodes_install_the_pinned_packages(config: dict[str, Any]) -> None:
    assert any("make -C ~/model-zoo-survey install" in line for line in config["setup_commands"])


def test_amazon_workers_have_a_type_of_their_own() -> None:
    config = on_amazon()
    assert config["head_node_type"] in config["available_node_types"]
    assert len(config["available_node_types"]) == 2
    most = [kind.get("max_workers", 0) for kind in config["available_node_types"].values()]
    assert sum(most) <= config["max_workers"]
