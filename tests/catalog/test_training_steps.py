"""The step of training in a checkpoint's name: as tags, and spelled out."""

from __future__ import annotations

import pytest

from catalog.training_steps import spelled_out, training_step


@pytest.mark.parametrize(
    ("reference", "tags"),
    [
        ("file:runs/epoch_030.pth", {"epoch": 30}),
        ("file:step-12000.pt", {"step": 12000}),
        ("file:a/ckpt_e30", {"epoch": 30}),
        ("file:checkpoint-500", {"step": 500}),
        ("file:out/checkpoint-500/model.safetensors", {"step": 500}),
        ("file:epoch=12-step=3400.ckpt", {"epoch": 12, "step": 3400}),
        ("file:Run 3/Epoch10.PTH", {"epoch": 10}),
        ("file:global_step77.pt", {"step": 77}),
        ("file:net_step_10k.pth", {"step": 10_000}),
        ("file:ep 7.pth", {"epoch": 7}),
        ("hf://me/net/checkpoint-9", {"step": 9}),
        # Hashes, versions, fractions, and what is no file.
        ("file:vgg19_bn-e1234567.pth", {}),
        ("file:resnet18-5e10aa.pth", {}),
        ("file:resnet50.pth", {}),
        ("file:epoch_1.5.pth", {}),
        ("file:lr_e-4.pth", {}),
        ("file:lr-E-05_wd_e-2/last.pth", {}),
        ("file:mae_pretrain-e-3200.pth", {"epoch": 3200}),
        ("file:ckpt_e-30.pth", {"epoch": 30}),
        ("file:ckpt_e-3.pth", {"epoch": 3}),
        ("file:lr_e-10.pth", {}),
        ("file:lr_e-4_epoch-3.pth", {"epoch": 3}),
        ("file:ep-3.pth", {"epoch": 3}),
        ("file:epochs.pth", {}),
        ("file:step_10kb.pth", {}),
        ("init:30", {}),
        ("timm:convnext_base.laion400m_e32", {}),
    ],
)
def test_the_training_step_is_that_of_the_files_name(reference: str, tags: dict[str, int]) -> None:
    assert training_step(reference) == tags


@pytest.mark.parametrize(
    ("name", "spelled"),
    [
        ("lr0.1_epoch_030", "lr0.1_epoch 30"),
        ("epoch=29-step=1000-loss=0.3", "epoch 29-loss=0.3"),
        ("global_step77", "step 77"),
        ("ckpt_e30_iter_10k", "ckpt_epoch 30"),
        ("wd5e-4_seed0", "wd5e-4_seed0"),
        ("lr_e-4", "lr_e-4"),
        ("vgg19_bn-e1234567", "vgg19_bn-e1234567"),
    ],
)
def test_a_step_is_spelled_out_wherever_a_tag_is_made_of_it(name: str, spelled: str) -> None:
    assert spelled_out(name) == spelled
    assert (spelled != name) == bool(training_step(f"file:{name}"))
