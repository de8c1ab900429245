"""Sweep over networks: which of torchvision's classifiers and of timm's can be watched.

Each network is followed without values, on torch's meta device, at the size it was made for. Then
it gets random weights of one seed and two images of the smallest size at which it has the same
sites, and runs plainly, then watched: both outputs must be equal bit for bit, must depend on the
images, and every activation must have been pooled. Networks whose weights are too large to run
are followed only. A state folder keeps each result at once; a part is every n-th network.
"""

from __future__ import annotations

import argparse
import contextlib
import fnmatch
import gc
import json
import resource
import sys
import time
import warnings
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from torch import nn

from bench.sweeping.networks import Choice, built, chosen, shape_for, without_values
from bench.sweeping.page import Row, kept, page, summary
from survey.capture.forward import Capture
from survey.capture.pooled_pair import PooledPair
from survey.errors import CaptureError

IMAGES = 2
#: Sides of the images that are tried, smallest first, before the size a network was made for.
SIDES = (64, 96, 112, 128, 160, 192, 224, 256)


def tried(choice: Choice, seed: int, most_parameters: int) -> Row:
    """Follow one network, and run it plainly and watched."""
    row = Row(**asdict(choice))
    began = time.process_time()
    try:
        model = without_values(choice)
        shape = shape_for(choice, model)
        row.size, row.parameters = "x".join(map(str, shape[1:])), _size(model)
        pairs = _followed(model, shape)
        _count(row, pairs)
        row.verdict, row.reason = _lost(row) or ("followed", "too large to run here")
        if row.parameters <= most_parameters:
            side, settings = _smallest(choice, model, shape, pairs)
            del model
            row.ran = "x".join(map(str, side[1:]))
            row.verdict, row.reason = _compared(built(choice, seed, **settings), side, row, seed)
    except CaptureError as error:
        row.verdict, row.reason = "refused", error.message
    except Exception as error:  # noqa: BLE001  (a sweep goes on)
        row.verdict, row.reason = "fails", f"{type(error).__name__}: {error}".split("\n")[0][:200]
    row.seconds = round(time.process_time() - began, 1)
    return row


def _followed(model: nn.Module, shape: tuple[int, ...]) -> list[PooledPair]:
    with torch.inference_mode():
        return Capture(model).forward(torch.empty(IMAGES, *shape, device="meta"))[1]


def _count(row: Row, pairs: list[PooledPair]) -> None:
    row.sites = len(pairs)
    row.gates = sum(pair.site.role == "gate" for pair in pairs)
    row.depth = max((pair.site.graph_depth for pair in pairs), default=0)
    row.unpooled = dict(Counter(pair.reason for pair in pairs if pair.reason))


def _lost(row: Row) -> tuple[str, str] | None:
    """Return the verdict on a network whose sites cannot all be measured; None if they can."""
    if not row.sites:
        return "refused", "there is no activation call"
    if row.unpooled:
        return "refused", "; ".join(f"{n} sites: {why}" for why, n in row.unpooled.items())
    return None


def _smallest(
    choice: Choice, model: nn.Module, shape: tuple[int, ...], pairs: list[PooledPair]
) -> tuple[tuple[int, ...], dict[str, int]]:
    """Return the smallest images at which a network has its sites, and how it is built for them."""
    sites = [(pair.site.site_name, pair.reason) for pair in pairs]
    for side in SIDES:
        if len(set(shape[1:])) > 1 or side >= shape[-1]:
            break
        small = (shape[0], side, side)
        for settings in ({}, {"img_size": side}):
            # Whatever a network says of images that it does not take.
            with contextlib.suppress(Exception):
                other = without_values(choice, **settings) if settings else model
                if sites == [(p.site.site_name, p.reason) for p in _followed(other, small)]:
                    return small, settings
    return shape, {}


def _compared(model: nn.Module, shape: tuple[int, ...], row: Row, seed: int) -> tuple[str, str]:
    images = torch.randn(IMAGES, *shape, generator=torch.Generator().manual_seed(seed))
    with torch.inference_mode():
        plain = list(_tensors(model(images.clone())))
        if not any(_depends(output) for output in plain):
            _wake(model)
            plain = list(_tensors(model(images.clone())))
        output, pairs = Capture(model).forward(images.clone())
    watched = list(_tensors(output))
    _count(row, pairs)
    if not any(_depends(output) for output in plain):
        return "fails", "the output is the same for both images"
    if len(plain) != len(watched) or not all(map(torch.equal, plain, watched)):
        return "differs", "the watched output is not the plain one"
    if (lost := _lost(row)) is not None:
        return lost
    uneven = sum(pair.x is not None and pair.x.shape != pair.y.shape for pair in pairs)  # type: ignore[union-attr]
    return ("fails", f"{uneven} sites whose output has other columns") if uneven else ("works", "")


def _depends(output: torch.Tensor) -> bool:
    """Return whether an output is finite and differs between the images."""
    if output.ndim == 0 or output.shape[0] != IMAGES or not bool(torch.isfinite(output).all()):
        return False
    return not torch.equal(output[0], output[1])


def _wake(model: nn.Module) -> None:
    """Give all parameters that are zero small values: scales and gates that begin closed."""
    for parameter in model.parameters():
        if not bool(parameter.any()):
            parameter.normal_(0, 0.02)


def _tensors(value: Any) -> Iterator[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, dict):
        yield from _tensors(list(value.values()))
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from _tensors(item)


def swept(choices: list[Choice], seed: int, most_parameters: int, file: Path) -> None:
    """Try all that the folder of a file does not hold yet; each result is kept there at once."""
    done = {(row.library, row.name) for row in kept(file.parent)}
    for number, choice in enumerate(choices, start=1):
        if (choice.library, choice.name) in done:
            continue
        row = tried(choice, seed, most_parameters)
        with file.open("a", encoding="utf-8") as lines:
            lines.write(json.dumps(asdict(row)) + "\n")
        gc.collect()
        text = f"{number}/{len(choices)} {row.library} {row.name} {row.seconds} s"
        print(f"{text}: {row.verdict} {row.reason}", file=sys.stderr, flush=True)


def _size(model: nn.Module) -> int:
    return sum(parameter.numel() for parameter in model.parameters())


def _part(text: str) -> tuple[int, int]:
    number, _, count = text.partition("/")
    return int(number), int(count)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default="*", help="networks, as LIBRARY/NAME with wildcards")
    parser.add_argument("--part", type=_part, default=(1, 1), help="such as 2/4; default all")
    parser.add_argument("--seed", type=int, default=0, help="of the weights and images")
    parser.add_argument("--threads", type=int, default=1, help="threads of torch")
    parser.add_argument("--most-parameters", type=int, default=400, help="to run, in millions")
    parser.add_argument("--memory", type=float, default=6, help="limit of the process, in GiB")
    parser.add_argument("--output", type=Path, help="a Markdown page to write")
    parser.add_argument("--state", type=Path, default=Path("sweep-state"), help="folder to resume")
    return parser.parse_args()


def main() -> None:
    """Try the networks and report."""
    arguments = _arguments()
    warnings.simplefilter("ignore")
    torch.set_num_threads(arguments.threads)
    limit = int(arguments.memory * 2**30)
    # What does not fit is an outcome, not the end of the machine.
    resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))
    arguments.state.mkdir(parents=True, exist_ok=True)
    number, count = arguments.part
    choices = [c for c in chosen() if fnmatch.fnmatch(f"{c.library}/{c.name}", arguments.only)]
    part = choices[number - 1 :: count]
    file = arguments.state / f"part-{number}-of-{count}.jsonl"
    swept(part, arguments.seed, arguments.most_parameters * 10**6, file)
    order = {(choice.library, choice.name): place for place, choice in enumerate(choices)}
    rows = [row for row in kept(arguments.state) if (row.library, row.name) in order]
    rows.sort(key=lambda row: order[row.library, row.name])
    if arguments.output:
        command = f"python bench/sweep.py --seed {arguments.seed} --output docs/sweep.md"
        arguments.output.write_text(page(rows, command), encoding="utf-8")
    print("\n".join(summary(rows)))
    gib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(f"most memory {gib:.1f} GiB, {sum(row.seconds for row in rows) / 60:.1f} minutes in all")


if __name__ == "__main__":
    main()
