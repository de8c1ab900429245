"""ResNet-50s trained without labels, and their like: other weights for torchvision's network.

Owns the facts of ``tables/self_supervised.csv``: where each published file is, how its keys become
the network's, how images are prepared, what was reported, and how sure all of that is. There is no
network here: one implementation makes signatures of all of them comparable call by call.
"""

from __future__ import annotations

from typing import Literal, cast

from catalog.models.base import (
    InputTransform,
    KeyRules,
    ModelSource,
    Published,
    RemoteFile,
    Reported,
)
from catalog.models.tables import read_table

#: The architecture that all of these weights are for.
ARCHITECTURE = "torchvision:resnet50"

#: Names of this family under which other sources' weights are known, by those sources' names.
ALIASES = {
    "ssl:tv_resnet50_v1": "torchvision:resnet50/IMAGENET1K_V1",
    "ssl:tv_resnet50_v2": "torchvision:resnet50/IMAGENET1K_V2",
    "ssl:tv_wide_resnet50_2_v1": "torchvision:wide_resnet50_2/IMAGENET1K_V1",
    "ssl:tv_wide_resnet50_2_v2": "torchvision:wide_resnet50_2/IMAGENET1K_V2",
    "ssl:timm_resnet50.a1_in1k": "timm:resnet50.a1_in1k",
    "ssl:timm_resnet50.a2_in1k": "timm:resnet50.a2_in1k",
    "ssl:timm_resnet50.a3_in1k": "timm:resnet50.a3_in1k",
    "ssl:timm_resnet50.fb_swsl_ig1b_ft_in1k": "timm:resnet50.fb_swsl_ig1b_ft_in1k",
    "ssl:timm_resnet50.fb_ssl_yfcc100m_ft_in1k": "timm:resnet50.fb_ssl_yfcc100m_ft_in1k",
}

_IMAGE_SIZE = 224


class SelfSupervisedSource(ModelSource):
    """Weights of self-supervised training and of kindred methods, for torchvision's ResNet-50."""

    name = "ssl"

    def published(self) -> list[Published]:
        """Return all published weights, sorted by name; imports nothing heavy."""
        entries = map(_entry, read_table("self_supervised.csv"))
        return sorted(entries, key=lambda entry: entry.name)


def _entry(row: dict[str, str]) -> Published:
    return Published(
        source=SelfSupervisedSource.name,
        name=row["name"],
        architecture=ARCHITECTURE,
        tag=row["name"],
        transform=_transform(row),
        file=RemoteFile(
            url=row["url"],
            name=row["file_name"],
            sha256_prefix=row["sha256_prefix"] or None,
            md5=row["md5"] or None,
            licence=row["licence"] or None,
        ),
        rules=_rules(row["container"], row["prefix"], row["drop"], row["also"]),
        reported=_reported(row),
        recipe=row["recipe"],
        recipe_url=row["home"],
        refusal=row["refusal"] or None,
        evidence=f"{row['evidence']} ({row['sources']})",
        notes=row["notes"],
    )


def _transform(row: dict[str, str]) -> InputTransform:
    return InputTransform(
        size=_IMAGE_SIZE,
        resize=int(row["resize"]),
        interpolation=cast(Literal["bilinear", "bicubic"], row["interpolation"]),
        mean=_channels(row["mean"]),
        std=_channels(row["std"]),
    )


def _channels(cell: str) -> tuple[float, float, float]:
    red, green, blue = map(float, cell.split())
    return red, green, blue


def _rules(container: str, prefix: str, drop: str, also: str = "") -> KeyRules:
    return KeyRules(
        container=tuple(container.split()),
        prefix=prefix.strip(),
        drop=tuple(drop.split()),
        classifier=False,
        alternatives=tuple(_rules(*form.split(";")) for form in also.split("|") if form.strip()),
    )


def _reported(row: dict[str, str]) -> tuple[Reported, ...]:
    figures = (
        (row["top1"], row["top5"], row["protocol"]),
        (row["knn_top1"], "", "knn"),
    )
    return tuple(
        Reported(
            top1=float(top1),
            top5=float(top5) if top5 else None,
            dataset="imagenet",
            protocol=protocol,
            image_size=_IMAGE_SIZE,
            source=row["sources"],
        )
        for top1, top5, protocol in figures
        if top1
    )
