"""The contract of every model source, as tests that a source's test class inherits.

::

    class TestMine(ModelSourceContract):
        source = MySource()
"""

from __future__ import annotations

from collections.abc import Sequence

import pytest
import torch
from torch import nn

from catalog.models.base import Architecture, ModelSource
from survey.errors import UnknownName


class ModelSourceContract:
    """Inherit, and set ``source``; set ``built`` where the first network is a large one."""

    source: ModelSource
    #: Names of the networks that are built; by default the first.
    built: Sequence[str] | None = None
    #: The device they are built on; on ``meta`` weights take no memory.
    device: str = "cpu"

    def test_names_are_sorted_and_each_is_once(self) -> None:
        names = self.source.names()
        assert names == sorted(set(names))
        assert names == self.source.names()
        assert self.source.name
        assert not set(":*?[]/") & set(self.source.name)
        assert not [name for name in names if set(":*?[]/") & set(name)]

    def test_networks_say_what_they_are(self) -> None:
        for architecture in self._some():
            assert architecture.source == self.source.name
            assert architecture.family
            assert architecture.classes >= 0
            assert architecture.transform.resize >= architecture.transform.size > 0
            assert architecture == self.source.get(architecture.name)

    def test_an_unknown_name_is_refused(self) -> None:
        with pytest.raises(UnknownName):
            self.source.get("no such network")

    def test_a_network_takes_its_images_and_gives_its_classes(self) -> None:
        built = self.source.names()[:1] if self.built is None else self.built
        for name in built:
            architecture = self.source.get(name)
            with torch.device(self.device):
                model = architecture.build().eval()
                assert isinstance(model, nn.Module)
                side = architecture.transform.size
                with torch.inference_mode():
                    output = model(torch.zeros(1, 3, side, side))
            if architecture.classes:
                assert output.shape == (1, architecture.classes)

    def test_published_weights_are_of_networks_there_are(self) -> None:
        published = self.source.published()
        names = [weights.name for weights in published]
        assert names == sorted(set(names))
        for weights in published[:: max(1, len(published) // 50)]:
            assert weights.source == self.source.name
            source, _, name = weights.architecture.partition(":")
            if source == self.source.name:
                assert self.source.get(name).full_name == weights.architecture
            assert all(0 <= report.top1 <= 1 for report in weights.reported)
            assert weights.refusal or weights.file is None or weights.file.url

    def _some(self) -> list[Architecture]:
        """Return some fifty of the networks, spread over the names."""
        names = self.source.names()
        return [self.source.get(name) for name in names[:: max(1, len(names) // 50)]]
