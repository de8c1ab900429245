"""The networks of timm and its pretrained names, as the installed version lists them.

Owns what timm's configurations hold of each: transform, classes, address of the weights, terms.
Accuracies are those of ``catalog.models.timm_results``. Nothing is downloaded here.
"""

from __future__ import annotations

import functools
import inspect
import math
import threading
from collections.abc import Callable, Iterator, Mapping
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any, Literal, cast

from catalog.models.base import (
    Architecture,
    InputTransform,
    KeyRules,
    Published,
    RemoteFile,
)
from catalog.models.family_facts import family_of
from catalog.models.library_source import LibrarySource
from catalog.models.timm_results import reported_for
from survey.errors import CheckpointError

if TYPE_CHECKING:
    import torch
    from timm.models import PretrainedCfg
    from torch import nn

#: Files whose weights are not at the top, or that may hold more than the network, by globs over
#: names. What may be left over here is what timm's own loader passes over.
RULES = {
    "*_ijepa": KeyRules(container=("encoder",), prefix="module."),
    "inception_v3.tv_in1k": KeyRules(drop=("AuxLogits.*",)),
    # These pool by averaging; files of the whole encoder bring the pooling by attention along.
    "vit_*siglip*_gap_*": KeyRules(drop=("attn_pool.*",)),
}

# Held while timm's loader is replaced, which is one for the whole process.
_REPLACED = threading.Lock()


class TimmSource(LibrarySource):
    """Every architecture and every pretrained name of the installed timm."""

    name = "timm"

    def read(self) -> tuple[Iterator[Architecture], Iterator[Published]]:
        """Return every architecture, as its default configuration describes it, and all weights.

        Pretrained names, which have a dot, are names of weights and of no architecture.
        """
        import timm

        return (
            map(_architecture, timm.list_models()),
            map(_weights, timm.list_models(pretrained=True)),
        )

    @staticmethod
    def build_network(name: str, classes: int | None = None) -> nn.Module:
        """Build a network by its name, with or without the tag of weights that set its size."""
        import timm

        return timm.create_model(name, pretrained=False, num_classes=classes)


def _architecture(name: str) -> Architecture:
    config = _config(name)
    module = _module(name)
    return Architecture(
        source=TimmSource.name,
        name=name,
        family=family_of(TimmSource.name, module, name).family,
        classes=config.num_classes,
        transform=_transform(config),
        module=module,
        build=functools.partial(TimmSource.build_network, name),
    )


def adapt(published: Published, tensors: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Return a published file's tensors by the keys of timm's network.

    This is what timm itself does between reading a file and loading it: old and foreign keys are
    renamed, position embeddings resampled where the network's grid is another. Tensors that fit
    already come back as they are. Runs timm's code on the tensors, and none from the file.

    Parameters
    ----------
    published : Published
        Weights of this source.
    tensors : mapping of str to Tensor
        What the file holds, after ``published.rules``.

    Returns
    -------
    dict of str to Tensor
        To be loaded strictly into what ``published.build`` builds.

    Raises
    ------
    CheckpointError
        If timm does not know what to do with the keys.
    """
    network, rename = _renaming(published.name)
    if rename is None:
        return dict(tensors)
    # Some of timm's functions take the tensors alone, as its own loader allows for.
    arguments = (dict(tensors), network)[: len(inspect.signature(rename).parameters)]
    try:
        renamed = rename(*arguments)
    except Exception as problem:
        # timm raises anything on keys that it does not expect.
        raise CheckpointError(
            f"timm cannot bring the keys of this file to those of {published.full_name}:"
            f" {type(problem).__name__}: {problem}",
            hint="the file is of another architecture, or of another release of timm",
        ) from problem
    return dict(renamed)


def _renaming(name: str) -> tuple[nn.Module, Callable[..., dict[str, torch.Tensor]] | None]:
    """Return timm's network for a pretrained name, without values, and how it renames a file.

    Which function does that is known only inside timm's builder, where it is handed to the loader.
    """
    import timm
    import torch
    from timm.models import _builder

    asked: dict[str, Any] = {}

    def note(_: nn.Module, **arguments: Any) -> None:
        asked.update(arguments)

    # A state dict of our own comes before every address, so that timm never downloads.
    nothing = {"state_dict": {"": torch.empty(0)}}
    with _REPLACED, torch.device("meta"):
        load = _builder.load_pretrained
        _builder.load_pretrained = note  # type: ignore[assignment]
        try:
            network = timm.create_model(name, pretrained=True, pretrained_cfg_overlay=nothing)
        finally:
            _builder.load_pretrained = load
    return network, asked["filter_fn"]


def _config(name: str) -> PretrainedCfg:
    from timm.models import get_pretrained_cfg

    return cast("PretrainedCfg", get_pretrained_cfg(name, allow_unregistered=False))


def _module(name: str) -> str:
    from timm.models import model_entrypoint

    return model_entrypoint(name).__module__.rpartition(".")[2]


def _transform(config: PretrainedCfg) -> InputTransform:
    """Return the transform that timm evaluates with at the size a network was trained for.

    What an ``InputTransform`` cannot express is refused for weights (``_refusal``). Random
    weights have no right transform: there the shorter side and a centre crop stand in.
    """
    size = min(config.input_size[1:])
    return InputTransform(
        size=size,
        resize=math.floor(size / config.crop_pct),
        interpolation=cast(Literal["bilinear", "bicubic"], config.interpolation),
        mean=cast(tuple[float, float, float], config.mean),
        std=cast(tuple[float, float, float], config.std),
        crop="squash" if config.crop_mode == "squash" else "center",
    )


def _weights(name: str) -> Published:
    architecture, _, tag = name.partition(".")
    config, default = _config(name), _config(architecture)
    transform = _transform(config)
    return Published(
        source=TimmSource.name,
        name=name,
        architecture=f"{TimmSource.name}:{architecture}",
        tag=tag,
        transform=transform,
        file=_file(config),
        rules=_rules(name),
        classes=config.num_classes if config.num_classes != default.num_classes else None,
        reported=reported_for(name, transform.size),
        default=tag == default.tag,
        recipe_url=config.origin_url or _paper_url(config),
        refusal=_refusal(config),
        evidence=_evidence(config),
        notes=_notes(config),
        build=functools.partial(TimmSource.build_network, name),
    )


def _rules(name: str) -> KeyRules:
    return next((rules for glob, rules in RULES.items() if fnmatchcase(name, glob)), KeyRules())


def _file(config: PretrainedCfg) -> RemoteFile | None:
    licence = None if config.license == "unknown" else config.license
    # In timm's own order: the hub before any other address, and there this file first.
    if config.hf_hub_id:
        name = config.hf_hub_filename or "model.safetensors"
        return RemoteFile(url=f"hf://{config.hf_hub_id}/{name}", name=name, licence=licence)
    if not isinstance(config.url, str) or not config.url:
        return None
    return RemoteFile.at(config.url, licence=licence)


def _refusal(config: PretrainedCfg) -> str | None:
    """Return why weights cannot be loaded, or not be measured as they were trained."""
    channels, height, width = config.input_size
    if channels != 3:
        return f"it takes images of {channels} channels, must be 3"
    if height != width:
        return f"it takes images of {height} x {width} pixels, must be square"
    if config.crop_mode not in {"center", "squash"}:
        return f"it pads images ({config.crop_mode}), must crop or squash them"
    if config.interpolation not in {"bilinear", "bicubic"}:
        return f"it resizes images by {config.interpolation}, must be bilinear or bicubic"
    if config.architecture and config.architecture.endswith("_fl"):
        return "its file lacks the last normalisation (head.norm), which would stay untrained"
    if _file(config) is None:
        return "timm gives no single address for its file"
    if config.custom_load and not config.hf_hub_id:
        return "its file is in a format of another library (custom_load), must be a state dict"
    return None


def _evidence(config: PretrainedCfg) -> str:
    import timm

    facts = f"configuration in timm {timm.__version__}"
    if config.hf_hub_id and not config.hf_hub_id.startswith("timm/"):
        return f"{facts}; the repository is not timm's own: name and keys of its file are assumed"
    if config.hf_hub_id:
        return f"{facts}; a file in timm's own repository, saved from its network"
    return f"{facts}; a file that timm renames the keys of where they differ"


def _notes(config: PretrainedCfg) -> str:
    paper = [f"paper {config.paper_ids}"] if config.paper_ids else []
    return "; ".join([*(config.notes or ()), *paper])


def _paper_url(config: PretrainedCfg) -> str | None:
    paper = config.paper_ids
    if not isinstance(paper, str) or not paper.startswith("arXiv:"):
        return None
    return f"https://arxiv.org/abs/{paper.removeprefix('arXiv:')}"
