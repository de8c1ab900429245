"""Facts of a library's models kept on disk: what is read back is what the library has."""

from __future__ import annotations

from pathlib import Path

import pytest

from catalog.models.base import Architecture, Published
from catalog.models.library_source import LibrarySource
from catalog.models.timm import TimmSource
from catalog.models.torchvision import TorchvisionSource
from survey.errors import UnknownName


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder in which facts are kept, empty."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path / "model-zoo-survey"


class Silent(TorchvisionSource):
    """A source whose library must not be asked."""

    def read(self) -> tuple[object, object]:  # type: ignore[override]
        """Fail."""
        raise AssertionError


def everything(source: LibrarySource) -> tuple[list[Architecture], list[Published]]:
    """Return all that a source has, as it is listed."""
    return [source.get(name) for name in source.names()], source.published()


@pytest.mark.parametrize("kind", [TorchvisionSource, TimmSource])
def test_what_is_kept_is_what_the_library_has(kind: type[LibrarySource], cache: Path) -> None:
    architectures, published = kind().read()
    first = kind()
    assert everything(first) == everything(kind())
    assert everything(first)[0] == sorted(architectures, key=lambda each: each.name)
    assert everything(first)[1] == sorted(published, key=lambda each: each.name)
    assert len(list(cache.iterdir())) == 1


@pytest.mark.usefixtures("cache")
def test_what_is_read_back_builds_the_same_network() -> None:
    expected = TorchvisionSource().get("vit_b_16").build()
    made = Silent().get("vit_b_16").build()
    assert [tuple(p.shape) for p in made.parameters()] == [
        tuple(p.shape) for p in expected.parameters()
    ]


def test_the_library_is_asked_once_and_again_where_the_file_is_damaged(cache: Path) -> None:
    with pytest.raises(AssertionError):
        Silent().names()
    names = TorchvisionSource().names()
    assert Silent().names() == names
    with pytest.raises(UnknownName):
        Silent().get("resnet1888")
    (file,) = cache.iterdir()
    file.write_bytes(file.read_bytes()[:1000])
    assert TorchvisionSource().names() == names
    assert Silent().names() == names


def test_a_cache_that_cannot_be_written_costs_time_alone(cache: Path) -> None:
    cache.write_text("a file where the folder would be")
    assert TorchvisionSource().get("resnet18").classes == 1000
