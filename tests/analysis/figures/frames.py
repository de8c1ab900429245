"""Frames of made-up surveys in the vocabulary of ``analysis``: models of nine families."""

from __future__ import annotations

import numpy as np
import pandas as pd

#: Family, its group, its first year, its activation, and the places in a block.
FAMILIES = (
    ("Alexnet", "pre-residual", 2012, "relu", 1),
    ("VGG", "pre-residual", 2014, "relu", 1),
    ("Inception", "pre-residual", 2014, "relu", 1),
    ("ResNet", "residual", 2015, "relu", 3),
    ("DenseNet", "residual", 2016, "relu", 2),
    ("EfficientNet", "NAS-based", 2019, "silu", 3),
    ("ViT", "ViT", 2020, "gelu", 1),
    ("Swin", "post-ViT", 2021, "gelu", 1),
    ("ConvNeXt", "post-ViT", 2022, "gelu", 1),
)


def surveyed(models: int = 9, *, seed: int = 0) -> pd.DataFrame:
    """Return signatures of so many models, family after family in turn."""
    rng = np.random.default_rng(seed)
    frames = [_model(number, rng) for number in range(models)]
    frame = pd.concat(frames, ignore_index=True)
    frame.attrs = {"selection": "all models", "home": "home", "measuring_versions": [3]}
    return frame


def _model(number: int, rng: np.random.Generator) -> pd.DataFrame:
    place, size = number % len(FAMILIES), number // len(FAMILIES)
    family, group, year, activation, repeats = FAMILIES[place]
    sites = 7 + 6 * size + 3 * place
    site = np.arange(sites)
    repeat = site % repeats + 1
    base = 0.45 + 0.05 * place
    affinity = base + 0.1 * np.sin(site / sites * 4) + rng.normal(0, 0.02, sites)
    if family == "ResNet":
        affinity = np.where(repeat == repeats, 0.93, affinity)
    role = np.where((family == "EfficientNet") & (repeat == 3), "gate", "main")
    return pd.DataFrame(
        {
            "run_id": f"{number:012x}", "architecture": f"{family.lower()}_{size + 1}",
            "model": f"{family.lower()}_{size + 1}", "source": "torchvision", "family": family,
            "family_group": group, "year": year + size // 3, "checkpoint": "bundled",
            "dataset": "photos", "pooling": "mean", "site": site,
            "site_name": [f"layers.{each}.act#1" for each in site],
            "activation": np.where(role == "gate", "sigmoid", activation),
            "graph_depth": site + 1, "role": role, "repeat": repeat,
            "affinity": affinity.clip(0.02, 0.99), "affinity_std": rng.uniform(0.004, 0.02, sites),
            "relative_depth": site / max(sites - 1, 1), "channels": 64, "batches": 4,
        }
    )  # fmt: skip


def with_gaps(signatures: pd.DataFrame, *rows: int) -> pd.DataFrame:
    """Return signatures without the scores of these rows."""
    frame = signatures.copy()
    frame.loc[list(rows), ["affinity", "affinity_std"]] = np.nan
    return frame
