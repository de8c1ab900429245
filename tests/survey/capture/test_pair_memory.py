"""Memory of pooled pairs, apart from that of the passes."""

from __future__ import annotations

import errno
import os

import pytest
import torch
from torch import nn

from survey.capture import pair_memory
from survey.capture.forward import Capture
from survey.capture.pair_memory import PairMemory
from survey.out_of_memory import is_out_of_memory


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_matrices_are_copied_and_share_nothing(dtype: torch.dtype) -> None:
    memory = PairMemory()
    # Odd sizes, nothing at all, and one that is larger than a block.
    shapes = [(3, 5), (0, 4), (64, 7), (1, 1), (2**21 + 1, 2), (9, 11)]
    matrices = [torch.randn(*shape, dtype=dtype) for shape in shapes]
    copies = list(map(memory.copied, matrices))
    assert all(map(torch.equal, copies, matrices))
    assert [copy.dtype for copy in copies] == [dtype] * len(shapes)
    for number, copy in enumerate(copies):
        copy.fill_(number)
    assert [set(copy.unique().tolist()) for copy in copies] == [{0}, set(), {2}, {3}, {4}, {5}]
    assert not any(map(torch.equal, copies[2:], matrices[2:]))


def test_pairs_of_a_pass_lie_beside_each_other() -> None:
    model = nn.Sequential(*(each for _ in range(3) for each in (nn.Conv2d(3, 3, 1), nn.ReLU())))
    _, pairs = Capture(model.eval()).forward(torch.randn(4, 3, 8, 8))
    matrices = [matrix for pair in pairs for matrix in (pair.x, pair.y)]
    blocks = {matrix.untyped_storage().data_ptr() for matrix in matrices if matrix is not None}
    assert len(matrices) == 6
    assert len(blocks) == 1


def test_a_lack_of_memory_is_one_that_halves_the_micro_batch(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def lacking(*_: object, **__: object) -> None:
        raise OSError(errno.ENOMEM, "Cannot allocate memory")

    monkeypatch.setattr(pair_memory, "mmap", lacking)
    with pytest.raises(MemoryError) as lack:
        PairMemory().copied(torch.ones(3, 3))
    assert is_out_of_memory(lack.value)


def test_a_forked_process_does_not_write_into_the_matrices_of_its_parent() -> None:
    matrix = PairMemory().copied(torch.ones(3, 3)).numpy()
    if not (child := os.fork()):
        matrix.fill(7.0)
        os._exit(0)
    os.waitpid(child, 0)
    assert matrix.max() == 1.0
