"""What is fetched, in which order it is given up, and when it is refused before it begins."""

from __future__ import annotations

import dataclasses
import shutil
from collections import namedtuple
from collections.abc import Callable
from pathlib import Path

import pytest

from catalog.downloads import FileStore
from catalog.models.base import RemoteFile
from jobs.planning import prefetch
from jobs.planning.definition import parse_definition
from jobs.planning.prefetch import fetch, needed, supply_files
from survey import DownloadError, SettingsError, UnreachableError

GB = 10**9


class Store(FileStore):
    """A store whose files lie nowhere, or on servers that do not answer."""

    def __init__(self, root: Path, silent: str = "") -> None:
        super().__init__(root)
        self.asked: list[str] = []
        self._silent = silent

    def missing(self, files: object) -> list[RemoteFile]:
        return list(files)  # type: ignore[call-overload]

    def get(self, file: RemoteFile, progress: Callable[..., None] | None = None) -> Path:
        self.asked.append(file.name)
        if self._silent and self._silent in file.url:
            raise UnreachableError(f"{file.name} cannot be fetched")
        return self.root / file.name


def files(*urls: str, size: int | None = None) -> list[RemoteFile]:
    return [RemoteFile(url=url, name=url.rpartition("/")[2], about_bytes=size) for url in urls]


def test_a_silent_server_is_asked_once(tmp_path: Path) -> None:
    store = Store(tmp_path, silent="down")
    wanted = files("http://down/a", "http://up/b", "http://down/c", "http://up/d")
    problems = fetch(wanted, store, lambda *_: None)
    assert store.asked == ["a", "b", "d"]
    assert list(problems) == ["http://down/a", "http://down/c"]
    assert "down" in problems["http://down/c"].message


def test_a_silent_server_is_named_without_a_login(tmp_path: Path) -> None:
    wanted = files("http://me:SECRET@down/a", "http://other:SECRET@down/b", "http://[down/c")
    problems = fetch(wanted, Store(tmp_path, silent="down"), lambda *_: None)
    message = problems[wanted[1].url].message
    assert "down did not answer" in message
    assert "SECRET" not in message
    hub = files("hf://timm/a/down", "hf://other/b/down")
    problems = fetch(hub, Store(tmp_path, silent="down"), lambda *_: None)
    assert "the model hub did not answer" in problems[hub[1].url].message


def test_much_is_fetched_only_when_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = Store(tmp_path)
    usage = namedtuple("usage", "total used free")(0, 0, 100 * GB)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage)
    supply_files(files("http://up/a", "http://up/b", size=10 * GB), store, lambda *_: None)
    assert store.asked == ["a", "b"]
    wanted = files("http://up/a", "http://up/b", size=11 * GB)
    wanted[0] = dataclasses.replace(wanted[0], licence="MIT")
    with pytest.raises(SettingsError, match="survey fetch") as caught:
        supply_files(wanted, store, lambda *_: None)
    assert "MIT (1), not stated (1)" in (caught.value.hint or "")
    with pytest.raises(DownloadError, match="102 GB"):
        prefetch.require_disk_space(files("http://up/a", "http://up/b", size=51 * GB), store)
    with pytest.raises(DownloadError, match=r"1 GB to spare"):
        prefetch.require_disk_space(files("http://up/a", size=100 * GB - 1), store)
    assert store.asked == ["a", "b"]


def test_a_survey_needs_each_file_once() -> None:
    values = {
        "models": [
            {"name": "ssl:swav_800"},
            {"name": "torchvision:resnet50", "checkpoints": ["ssl:swav_800", "init:0", "default"]},
            {"name": "small:digits_vgg7"},
        ],
        "datasets": [{"name": "cifar10"}, {"name": "cifar10:train", "limit": 100}],
    }
    definition = parse_definition(values, "test", Path())
    assert [file.name for file in needed(definition, lambda _: None)] == [
        "swav_800ep_pretrain.pth.tar",
        "resnet50-11ad3fa6.pth",
        "cifar-10-binary.tar.gz",
    ]
