"""Every source of models keeps the contract."""

from __future__ import annotations

from catalog.contract_tests.model_source import ModelSourceContract
from catalog.models import SOURCES
from catalog.models.cifar import CifarSource
from catalog.models.memory import MemorySource
from catalog.models.python import PythonSource
from catalog.models.self_supervised import SelfSupervisedSource
from catalog.models.timm import TimmSource
from catalog.models.torchvision import TorchvisionSource


class TestCifar(ModelSourceContract):
    source = CifarSource()


class TestTorchvision(ModelSourceContract):
    source = TorchvisionSource()
    built = ("squeezenet1_1",)


class TestSelfSupervised(ModelSourceContract):
    source = SelfSupervisedSource()


class TestTimm(ModelSourceContract):
    source = TimmSource()
    built = ("resnet18",)
    device = "meta"


class TestMemory(ModelSourceContract):
    source = MemorySource()


class TestPython(ModelSourceContract):
    source = PythonSource()


def test_every_source_is_under_contract() -> None:
    tested = {type(kept.source) for kept in ModelSourceContract.__subclasses__()}
    assert tested == {type(source) for source in SOURCES}
