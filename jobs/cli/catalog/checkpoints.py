"""``survey checkpoints``: the published weights, their accuracy and their terms."""

from __future__ import annotations

from analysis.option_fields import option
from jobs.cli.output import TableOptions
from jobs.cli.terminal import say
from jobs.cli.verb import DEFAULT_HOME, HomeOption, verb
from survey.text import counted

#: Columns that a terminal shows, and their headings; other formats and --wide have all columns.
_HEADINGS: dict[str, str | None] = {
    **dict.fromkeys(("checkpoint", "architecture", "size")),
    "reported_top1": "top1",
    **dict.fromkeys(("protocol", "licence", "refusal")),
}


@verb
def checkpoints(
    *,
    pattern: str | None = option(
        None,
        "Weights, architecture, glob or set, such as 'ssl:*'.",
        metavar="PATTERN",
        positional=True,
    ),
    family: str | None = option(None, "Family of the architectures."),
    protocol: str | None = option(
        None, "Protocol of the reported accuracy, such as supervised or linear."
    ),
    least_top1: float | None = option(
        None, "Smallest reported top-1 accuracy, from 0 to 1.", flags=("--min-top1",)
    ),
    wide: bool = option(False, "Show addresses, terms, evidence and notes too."),
    home: HomeOption = DEFAULT_HOME,
    table: TableOptions,
) -> None:
    """List published weights with their reported accuracy, and why some cannot be loaded."""
    from catalog.home import Home
    from catalog.listing import WantedWeights, list_checkpoints

    wanted = WantedWeights(pattern, family, protocol, least_top1)
    listed = list_checkpoints(wanted, Home(home.absolute()).cache)
    table.write(listed, None if wide else _HEADINGS)
    say(counted(listed.num_rows, "checkpoint"))
