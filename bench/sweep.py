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
import platform
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
from torch.overrides import TorchFunctionMode

from survey.capture.forward import Capture
from survey.capture.pooled_pair import PooledPair
from survey.errors import CaptureError

IMAGES = 2
#: Sides of the images that are tried, smallest first, before the size a network was made for.
SIDES = (64, 96, 112, 128, 160, 192, 224, 256)


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
    #: Image size the network was made for, and the one at which it ran.
    size: str = ""
    ran: str = ""
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


def chosen() -> list[Choice]:
    """Return all of torchvision's classifiers, then all of timm's networks."""
    ours = torchvision.models.list_models(module=torchvision.models)
    first = [Choice("torchvision", name, _torchvision_module(name)) for name in ours]
    return first + [Choice("timm", name, _model_to_module[name]) for name in timm.list_models()]


def _size(model: nn.Module) -> int:
    return sum(parameter.numel() for parameter in model.parameters())


def _torchvision_module(name: str) -> str:
    return str(torchvision.models.get_model_builder(name).__module__.rpartition(".")[2])


# Building.


def _timm(name: str, **settings: Any) -> nn.Module:
    return timm.create_model(name, pretrained=False, **settings)


def _torchvision(name: str, **settings: Any) -> nn.Module:
    quiet = {"init_weights": True} if name in ("googlenet", "inception_v3") else {}
    if "img_size" in settings:
        settings["image_size"] = settings.pop("img_size")
    model: nn.Module = torchvision.models.get_model(name, weights=None, **quiet, **settings)
    return model


BUILDERS: dict[str, Callable[..., nn.Module]] = {"torchvision": _torchvision, "timm": _timm}


class CheapDraws(TorchFunctionMode):
    """Weights from one table of normal values, over and over: drawing each takes most of a build.

    Parameters
    ----------
    seed : int
        Of the table.
    """

    def __init__(self, seed: int) -> None:
        super().__init__()
        self._table = torch.randn(1_000_003, generator=torch.Generator().manual_seed(seed))

    def __torch_function__(
        self, function: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        if function is torch.Tensor.erfinv_:
            return args[0]
        drawn = function in (torch.Tensor.normal_, torch.Tensor.uniform_)
        if not drawn or not args[0].is_contiguous() or args[0].is_meta:
            return function(*args, **(kwargs or {}))
        names = ("mean", "std") if function is torch.Tensor.normal_ else ("from", "to")
        given = dict(zip(names, args[1:], strict=False)) | (kwargs or {})
        first, second = (float(given.get(name, i)) for i, name in enumerate(names))
        if names[0] == "from":
            # A normal law of the same mean and deviation.
            first, second = (first + second) / 2, (second - first) / 12**0.5
        return self._filled(args[0], first, second)

    def _filled(self, tensor: torch.Tensor, mean: float, std: float) -> torch.Tensor:
        table, flat = self._table * std + mean, tensor.view(-1)
        for start in range(0, len(flat), len(table)):
            piece = flat[start : start + len(table)]
            piece.copy_(table[: len(piece)])
        return tensor


def built(choice: Choice, seed: int, **settings: int) -> nn.Module:
    """Build a network with random weights; matrices that begin at zero get small values."""
    torch.manual_seed(seed)
    with CheapDraws(seed):
        model = BUILDERS[choice.library](choice.name, **settings).eval()
        with torch.no_grad():
            for parameter in model.parameters():
                if parameter.ndim >= 2 and not bool(parameter.any()):
                    parameter.normal_(0, 0.02)
    return model


def without_values(choice: Choice, **settings: int) -> nn.Module:
    """Build a network on the meta device."""
    builder = BUILDERS[choice.library]
    try:
        with torch.device("meta"):
            return builder(choice.name, **settings).eval()
    except NotImplementedError:
        # It computes something when it is built.
        with CheapDraws(0):
            return builder(choice.name, **settings).eval().to("meta")


def shape_for(choice: Choice, model: Any) -> tuple[int, ...]:
    """Return the size of the images that a network was made for, channels first."""
    if choice.library == "timm":
        return tuple(model.pretrained_cfg.get("input_size", (3, 224, 224)))
    weights = torchvision.models.get_model_weights(choice.name)
    crops = [weight.transforms().crop_size[0] for weight in weights]
    size = getattr(model, "image_size", min(crops))
    return (3, size, size)


# Trying.


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


def kept(state: Path) -> list[Row]:
    """Return the results in a state folder."""
    files = sorted(state.glob("*.jsonl"))
    lines = [line for file in files for line in file.read_text(encoding="utf-8").splitlines()]
    return [Row(**json.loads(line)) for line in lines]


# Reporting.


ABOUT = """\
All of torchvision's classifiers and all of timm's networks. Each was followed without values at the
image size it was made for, and then run on a CPU with random weights and two images of the smallest
size at which it has the same sites (*ran at*). *Works* means: the output of the watched network
equals that of the plain one bit for bit and depends on the images, there is at least one activation
call, and every call could be pooled (by averaging over space; one thread, inference mode).
*Followed* means that its weights are too large to run here: its sites were counted, its output was
not compared. Weight matrices that begin at zero were given small random values, and where the
output still was the same for both images, all parameters that begin at zero. Wherever somebody has
counted independently, on all 80 torchvision architectures and 26 of timm's, the number of sites is
that count: `tests/survey/capture/test_activations.py` compares them."""


def page(rows: list[Row], command: str) -> str:
    """Return the page: summary, failures, and one line a network."""
    wrong = [row for row in rows if row.verdict not in ("works", "followed")]
    large = [f"{row.library} `{row.name}`" for row in rows if row.verdict == "followed"]
    seconds = sum(row.seconds for row in rows)
    return "\n".join(
        [
            "# Which networks can be watched",
            "",
            *ABOUT.splitlines(),
            "",
            f"    {command}",
            "",
            f"{_versions()} {seconds / 60:.0f} minutes of one thread in all.",
            "",
            *_summary(rows),
            "",
            "## What does not work, and why",
            "",
            *(map(_line, wrong) if wrong else ["Nothing."]),
            "",
            "## What was followed, and is too large to run here",
            "",
            ", ".join(large) or "Nothing.",
            "",
            "## All networks",
            "",
            "Sites are activation calls; gates are those whose output only scales another value;",
            "depth counts the activations on the longest path; parameters are in millions.",
            *_tables(rows),
            "",
        ]
    )  # fmt: skip


def _line(row: Row) -> str:
    """Return a line with the first reason why a network does not work, and how many there are."""
    first, *others = row.reason.split("; ")
    more = f"; and {len(others)} more" if others else ""
    return f"- {row.library} `{row.name}`: {row.verdict}: {first}{more}"


def _versions() -> str:
    ours = f"Python {platform.python_version()}, torch {torch.__version__}"
    return f"{ours}, torchvision {torchvision.__version__}, timm {timm.__version__}."


def _summary(rows: list[Row]) -> Iterator[str]:
    for library in BUILDERS:
        ours = [row for row in rows if row.library == library]
        if ours:
            verdicts = Counter(row.verdict for row in ours)
            works, others = verdicts.pop("works", 0), sorted(verdicts.items())
            sites, gates = sum(row.sites for row in ours), sum(row.gates for row in ours)
            yield (
                f"- {library}: {works} of {len(ours)} work ({100 * works / len(ours):.1f} %), "
                + "".join(f"{count} {verdict}, " for verdict, count in others)
                + f"{sites} sites, {gates} of them gates."
            )


def _tables(rows: list[Row]) -> Iterator[str]:
    for library in BUILDERS:
        yield from (
            "", f"### {library}", "",
            "| network | module | input | ran at | parameters | sites | gates | depth | verdict |",
            "|---|---|---|---|---:|---:|---:|---:|---|",
        )  # fmt: skip
        for row in rows:
            if row.library == library:
                yield (
                    f"| {row.name} | {row.module} | {row.size} | {row.ran} | "
                    f"{row.parameters / 1e6:.1f} | {row.sites} | {row.gates} | {row.depth} | "
                    f"{row.verdict} |"
                )


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
    print("\n".join(_summary(rows)))
    gib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(f"most memory {gib:.1f} GiB, {sum(row.seconds for row in rows) / 60:.1f} minutes in all")


if __name__ == "__main__":
    main()
