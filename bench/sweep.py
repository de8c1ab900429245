"""Sweep over networks: which of torchvision's classifiers and 300 of timm's can be watched.

Each network gets random weights of one seed and two images of its input size. It runs
plainly, then watched; both outputs must be equal bit for bit, must depend on the images, and
every activation must have been pooled. Networks are chosen before any is tried: from each of
timm's modules the one with the fewest parameters, and the rest drawn with a seed among those
under 100 million parameters.
"""

from __future__ import annotations

import argparse
import fnmatch
import gc
import json
import platform
import random
import resource
import sys
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import timm
import torch
import torchvision
from timm.models._registry import _model_to_module
from torch import nn

from survey.capture.forward import Capture
from survey.errors import CaptureError

#: The rest of timm's networks are drawn among those with fewer parameters.
MOST_PARAMETERS = 100_000_000
IMAGES = 2


@dataclass(frozen=True)
class Choice:
    """One architecture to try."""

    library: str
    name: str
    module: str


@dataclass
class Row:
    """The result of one architecture."""

    library: str
    name: str
    module: str
    size: str = ""
    parameters: int = 0
    sites: int = 0
    gates: int = 0
    depth: int = 0
    #: Sites that could not be pooled, by reason.
    unpooled: dict[str, int] = field(default_factory=dict)
    verdict: str = "fails"
    reason: str = ""
    seconds: float = 0.0


# Choosing.


def chosen(count: int, seed: int, cache: Path) -> list[Choice]:
    """Return torchvision's classifiers, then ``count`` of timm's networks."""
    ours = torchvision.models.list_models(module=torchvision.models)
    first = [Choice("torchvision", name, _torchvision_module(name)) for name in ours]
    sizes = _parameter_counts(cache)
    names = _drawn(sizes, count, random.Random(seed))
    return first + [Choice("timm", name, _model_to_module[name]) for name in names]


def _drawn(sizes: dict[str, int], count: int, generator: random.Random) -> list[str]:
    smallest: dict[str, str] = {}
    for name in sorted(sizes, key=lambda name: (sizes[name], name)):
        smallest.setdefault(_model_to_module[name], name)
    taken = set(smallest.values())
    others = sorted(n for n in sizes if n not in taken and sizes[n] < MOST_PARAMETERS)
    return sorted(taken) + sorted(generator.sample(others, max(count - len(taken), 0)))


def _parameter_counts(cache: Path) -> dict[str, int]:
    """Count the parameters of all of timm's networks, without storage; some three minutes."""
    if not cache.exists():
        with torch.device("meta"):
            sizes = {name: _size(_timm(name)) for name in timm.list_models()}
        cache.write_text(json.dumps(sizes), encoding="utf-8")
    counts: dict[str, int] = json.loads(cache.read_text(encoding="utf-8"))
    return counts


def _size(model: nn.Module) -> int:
    return sum(parameter.numel() for parameter in model.parameters())


def _torchvision_module(name: str) -> str:
    return str(torchvision.models.get_model_builder(name).__module__.rpartition(".")[2])


# Building.


def _timm(name: str) -> nn.Module:
    return timm.create_model(name, pretrained=False)


def _torchvision(name: str) -> nn.Module:
    quiet = {"init_weights": True} if name in ("googlenet", "inception_v3") else {}
    model: nn.Module = torchvision.models.get_model(name, weights=None, **quiet)
    return model


BUILDERS: dict[str, Callable[[str], nn.Module]] = {"torchvision": _torchvision, "timm": _timm}


def built(choice: Choice, seed: int) -> nn.Module:
    """Build a network with random weights; matrices that begin at zero get small values."""
    torch.manual_seed(seed)
    model = BUILDERS[choice.library](choice.name).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.ndim >= 2 and not bool(parameter.any()):
                parameter.normal_(0, 0.02)
    return model


def images_for(choice: Choice, model: nn.Module, seed: int) -> torch.Tensor:
    """Return two images of the size the network was made for."""
    shape = _timm_shape(model) if choice.library == "timm" else _torchvision_shape(choice, model)
    return torch.randn(IMAGES, *shape, generator=torch.Generator().manual_seed(seed))


def _timm_shape(model: Any) -> tuple[int, ...]:
    return tuple(model.pretrained_cfg.get("input_size", (3, 224, 224)))


def _torchvision_shape(choice: Choice, model: Any) -> tuple[int, ...]:
    weights = torchvision.models.get_model_weights(choice.name)
    crops = [weight.transforms().crop_size[0] for weight in weights]
    size = getattr(model, "image_size", min(crops))
    return (3, size, size)


# Trying.


def tried(choice: Choice, seed: int) -> Row:
    """Run one network plainly and watched."""
    row = Row(**asdict(choice))
    began = time.perf_counter()
    try:
        model = built(choice, seed)
        images = images_for(choice, model, seed)
        row.size = "x".join(map(str, images.shape[2:]))
        row.parameters = _size(model)
        row.verdict, row.reason = _compared(model, images, row)
    except CaptureError as error:
        row.verdict, row.reason = "refused", error.message
    except Exception as error:  # noqa: BLE001  (a sweep goes on)
        row.reason = f"{type(error).__name__}: {error}"[:200]
    row.seconds = round(time.perf_counter() - began, 1)
    return row


def _compared(model: nn.Module, images: torch.Tensor, row: Row) -> tuple[str, str]:
    with torch.inference_mode():
        plain = list(_tensors(model(images.clone())))
        if not any(_depends(output) for output in plain):
            _wake(model)
            plain = list(_tensors(model(images.clone())))
        output, pairs = Capture(model).forward(images.clone())
    watched = list(_tensors(output))
    row.sites = len(pairs)
    row.gates = sum(pair.site.role == "gate" for pair in pairs)
    row.depth = max((pair.site.graph_depth for pair in pairs), default=0)
    row.unpooled = dict(Counter(pair.reason for pair in pairs if pair.reason))
    if not any(_depends(output) for output in plain):
        return "fails", "the output is the same for both images"
    if len(plain) != len(watched) or not all(map(torch.equal, plain, watched)):
        return "differs", "the watched output is not the plain one"
    if not pairs:
        return "refused", "there is no activation call"
    if row.unpooled:
        return "refused", "; ".join(f"{n} sites: {why}" for why, n in row.unpooled.items())
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


def swept(choices: list[Choice], seed: int, state: Path) -> list[Row]:
    """Try all that the state file does not hold yet; each result is kept at once."""
    lines = state.read_text(encoding="utf-8").splitlines() if state.exists() else []
    done = {(row.library, row.name): row for row in (Row(**json.loads(line)) for line in lines)}
    for number, choice in enumerate(choices, start=1):
        if (choice.library, choice.name) in done:
            continue
        row = tried(choice, seed)
        done[row.library, row.name] = row
        with state.open("a", encoding="utf-8") as file:
            file.write(json.dumps(asdict(row)) + "\n")
        gc.collect()
        text = f"{number}/{len(choices)} {row.library} {row.name} {row.seconds} s"
        print(f"{text}: {row.verdict} {row.reason}", file=sys.stderr, flush=True)
    return [done[choice.library, choice.name] for choice in choices]


# Reporting.


ABOUT = """\
Random weights, two images of the network's own input size, on a CPU. *Works* means: the output
of the watched network equals that of the plain one bit for bit and depends on the images, there
is at least one activation call, and every call could be pooled (by averaging over space; one
thread, inference mode). Weight matrices that begin at zero were given small random values, and
where the output still was the same for both images, all parameters that begin at zero. Wherever
somebody has counted independently, on all 80 torchvision architectures and 26 of timm's, the
number of sites is that count: `tests/survey/capture/test_activations.py` compares them. The
networks were chosen before any was tried: all of torchvision's classifiers, the smallest network of
each of timm's modules, and the rest drawn with a seed among those under 100 million parameters."""


def page(rows: list[Row], command: str) -> str:
    """Return the page: summary, failures, and one line a network."""
    wrong = [row for row in rows if row.verdict != "works"]
    return "\n".join(
        [
            "# Which networks can be watched",
            "",
            *ABOUT.splitlines(),
            "",
            f"    {command}",
            "",
            _versions(),
            "",
            *_summary(rows),
            "",
            "## What does not work, and why",
            "",
            *([f"- {row.library} `{row.name}`: {row.verdict}: {row.reason}" for row in wrong]
              or ["Nothing."]),
            "",
            "## All networks",
            "",
            "Sites are activation calls; gates are those whose output only scales another value;",
            "depth counts the activations on the longest path; parameters are in millions.",
            *_tables(rows),
            "",
        ]
    )  # fmt: skip


def _versions() -> str:
    ours = f"Python {platform.python_version()}, torch {torch.__version__}"
    return f"{ours}, torchvision {torchvision.__version__}, timm {timm.__version__}."


def _summary(rows: list[Row]) -> Iterator[str]:
    for library in BUILDERS:
        ours = [row for row in rows if row.library == library]
        if ours:
            works = sum(row.verdict == "works" for row in ours)
            sites, gates = sum(row.sites for row in ours), sum(row.gates for row in ours)
            yield (
                f"- {library}: {works} of {len(ours)} work ({100 * works / len(ours):.1f} %), "
                f"{sites} sites, {gates} of them gates."
            )


def _tables(rows: list[Row]) -> Iterator[str]:
    for library in BUILDERS:
        yield from (
            "", f"### {library}", "",
            "| network | module | input | parameters | sites | gates | depth | verdict |",
            "|---|---|---|---:|---:|---:|---:|---|",
        )  # fmt: skip
        for row in rows:
            if row.library == library:
                yield (
                    f"| {row.name} | {row.module} | {row.size} | {row.parameters / 1e6:.1f} | "
                    f"{row.sites} | {row.gates} | {row.depth} | {row.verdict} |"
                )


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default="*", help="networks, as LIBRARY/NAME with wildcards")
    parser.add_argument("--timm", type=int, default=300, help="how many of timm's networks")
    parser.add_argument("--seed", type=int, default=0, help="of the choice, weights and images")
    parser.add_argument("--threads", type=int, default=1, help="threads of torch")
    parser.add_argument("--output", type=Path, help="a Markdown page to write")
    parser.add_argument("--state", type=Path, default=Path("sweep-state"), help="folder to resume")
    return parser.parse_args()


def main() -> None:
    """Choose networks, try them and report."""
    arguments = _arguments()
    warnings.simplefilter("ignore")
    torch.set_num_threads(arguments.threads)
    arguments.state.mkdir(parents=True, exist_ok=True)
    choices = chosen(arguments.timm, arguments.seed, arguments.state / "parameters.json")
    choices = [c for c in choices if fnmatch.fnmatch(f"{c.library}/{c.name}", arguments.only)]
    rows = swept(choices, arguments.seed, arguments.state / f"rows-{arguments.seed}.jsonl")
    command = f"python bench/sweep.py --timm {arguments.timm} --seed {arguments.seed}"
    command += " --output docs/sweep.md"
    if arguments.output:
        arguments.output.write_text(page(rows, command), encoding="utf-8")
    print("\n".join(_summary(rows)))
    gib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(f"most memory {gib:.1f} GiB, {sum(row.seconds for row in rows) / 60:.1f} minutes in all")


if __name__ == "__main__":
    main()
