"""What is listed of a model before it is measured is what a measurement then does."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest
import torch

from catalog.model_sites import show_sites
from catalog.models import find
from catalog.models.consent import trust
from survey.capture.forward import Capture
from survey.errors import CatalogError, SettingsError, UnknownName, UntrustedCode


def test_the_sites_listed_are_those_that_a_pass_measures(monkeypatch: pytest.MonkeyPatch) -> None:
    def connected(*_: object) -> None:
        raise AssertionError("something was to be downloaded")

    monkeypatch.setattr(socket.socket, "connect", connected)
    for name in ("small:digits_vgg7", "torchvision:squeezenet1_1"):
        (architecture,) = find(name)
        images = torch.randn(2, 3, *2 * (architecture.transform.size,))
        with torch.inference_mode():
            pairs = Capture(architecture.build().eval()).forward(images)[1]
        rows = show_sites(name).to_pylist()
        assert [row["site"] for row in rows if row["site"]] == [p.site.site_name for p in pairs]
        assert [row["layout"] for row in rows if row["site"]] == [p.site.layout for p in pairs]
        assert all(row["site"] or row["reason"] for row in rows)


def test_a_network_that_computes_with_its_values_is_listed_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "deciding.py").write_text(
        """import torch
from torch import nn

class Deciding(nn.Module):
    def forward(self, x):
        return torch.relu(x) if float(x.std()) > 0 else torch.tanh(x)
"""
    )
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UntrustedCode):
        show_sites("python:deciding:Deciding")
    trust("python:deciding:Deciding")
    assert show_sites("python:deciding:Deciding").column("function").to_pylist() == ["relu"]


@pytest.mark.parametrize("raised", ["RuntimeError", "AssertionError", "KeyError"])
def test_a_network_that_fails_is_named_with_its_images(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, raised: str
) -> None:
    name = f"fails_{raised.lower()}"
    (tmp_path / f"{name}.py").write_text(
        f"""from torch import nn

class Failing(nn.Module):
    def forward(self, x):
        raise {raised}("wants 7 features")

Failing.survey = {{"size": 12}}
"""
    )
    monkeypatch.chdir(tmp_path)
    trust(f"python:{name}:Failing")
    with pytest.raises(CatalogError, match=rf"3 x 12 x 12: {raised}: .*wants 7") as caught:
        show_sites(f"python:{name}:Failing")
    assert caught.value.hint


def test_a_network_that_cannot_be_built_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "unbuilt.py").write_text("def network():\n    raise ValueError('no width')\n")
    monkeypatch.chdir(tmp_path)
    trust("python:unbuilt:network")
    with pytest.raises(CatalogError, match="unbuilt:network fails: ValueError: no width"):
        show_sites("python:unbuilt:network")


@pytest.mark.parametrize(
    ("name", "problem"), [("small:digits_*", SettingsError), ("small:nothing", UnknownName)]
)
def test_one_model_is_asked_for(name: str, problem: type[Exception]) -> None:
    with pytest.raises(problem):
        show_sites(name)
