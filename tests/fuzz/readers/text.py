"""What is typed, or stands in a survey file: the file, names with arguments, due times, tags."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from pathlib import Path

from catalog.checkpoint_files import expanded
from catalog.checkpoint_references import resolve
from catalog.datasets import open_dataset
from catalog.models.arguments import parse_name, written_name
from catalog.models.base import Architecture, InputTransform
from catalog.models.consent import module_of
from catalog.tags import parsed_tag
from catalog.training_steps import training_step
from jobs.planning.definition import parse_definition, read_definition
from jobs.schedules.cron import new_entry
from survey.errors import SurveyError
from tests.fuzz.readers.base import Target

_SURVEY = b"""remeasure = ["torch"]
tags = {lr = 0.1, kind = "x"}
[[models]]
name = "small:digits_*"
checkpoints = ["bundled", "init:0", {ref = "file:a.pth", label = "A", tags = {epoch = 3}}]
mean = [0.5, 0.5, 0.5]
expect_top1 = {digits = 0.9}
[[models]]
name = "python:nets:make"
args = {width = [64, 128], kind = "a"}
[[datasets]]
name = "digits"
limit = 100
stratified = true
order_seed = 3
[settings]
images_per_score = 64
"""
_NET = Architecture(
    "small",
    "net",
    "Net",
    10,
    InputTransform(size=8, resize=8),
    build=lambda: None,  # type: ignore[arg-type, return-value]
)


def _toml(data: bytes, folder: Path) -> None:
    """A survey file; what is kept of it in the registry means the same."""
    path = folder / "survey.toml"
    path.write_bytes(data)
    definition = read_definition(path)
    kept = definition.to_dict()
    again = parse_definition(kept | {"settings": definition.settings.to_dict()}, "survey", folder)
    assert again.to_dict() == kept


def _text(read: Callable[[str, Path], object]) -> Callable[[bytes, Path], None]:
    """Return a target that takes text, as the command line gives it."""

    def target(data: bytes, folder: Path) -> None:
        read(data.decode("utf-8", "surrogateescape").replace("\0", ""), folder)

    return target


def _arguments(text: str, folder: Path) -> None:
    if module_of(f"python:{text}") is None:
        return
    function, arguments = parse_name(text)
    written = written_name(function, arguments)
    assert repr(parse_name(written)) == repr((function, dict(sorted(arguments.items()))))
    assert written_name(*parse_name(written)) == written


def _cron(text: str, folder: Path) -> None:
    definition = parse_definition({"models": [{"name": "small:net"}]}, "survey", folder)
    fields, _, zone = text.partition("|")
    new_entry("name", definition, folder, cron=fields, timezone=zone or "Europe/Paris")


def _names(text: str, folder: Path) -> None:
    """A checkpoint, a dataset and a tag."""
    readers: tuple[Callable[[], object], ...] = (
        lambda: parsed_tag(text),
        lambda: training_step(text),
        lambda: resolve(text, _NET, folder),
        # Nothing outside of the folder: a listing of the whole disk takes what it takes.
        lambda: open_dataset(text, folder) if ":/" not in text and ".." not in text else None,
        lambda: expanded(text, folder) if "**" not in text and "/" not in text else None,
    )
    for read in readers:
        with contextlib.suppress(SurveyError, OSError):
            read()


TARGETS = {
    "toml": Target(_toml, lambda: [_SURVEY]),
    "arguments": Target(
        _text(_arguments),
        lambda: [b'nets:make?depth=3&kind="a%20b"&lr=1e-3&wide=true', b"nets:make"],
    ),
    "cron": Target(
        _text(_cron),
        lambda: [b"0 3 * * 1", b"*/5 1-4,7 LW JAN-MAR 5#2|UTC", b"0 0 29 2 0,5L", b"@daily"],
    ),
    "names": Target(
        _text(_names),
        lambda: [
            b"file:runs/epoch_*.pth",
            b"hf://timm/resnet18.a1_in1k@main/a.bin",
            b"digits[:100 stratified order 3]",
            b"lr=0.1",
            b"init:3",
            b"random:1000",
            b"folder:~/pictures",
            # Its classes are those of a library that takes seconds to load.
            b"imagenet:.",
        ],
    ),
}
