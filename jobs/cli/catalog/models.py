"""``survey models``: the table of architectures, and all facts about one."""

from __future__ import annotations

from analysis.option_fields import option
from jobs.cli.consent import recall_consent
from jobs.cli.output import TableOptions
from jobs.cli.terminal import say
from jobs.cli.verb import DEFAULT_HOME, HomeOption, verb
from survey.text import counted

#: Columns that a terminal shows, and their headings; other formats and --wide have all columns.
_HEADINGS: dict[str, str | None] = {
    **dict.fromkeys(("architecture", "family", "family_group", "year", "parameters", "gflops")),
    **dict.fromkeys(("depth", "size", "checkpoints")),
    "reported_top1": "top1",
}


@verb
def models(
    *,
    pattern: str | None = option(
        None,
        "Architecture, glob such as 'timm:convnext*' or set; or the word show.",
        metavar="PATTERN",
        positional=True,
    ),
    name: str | None = option(
        None, "Architecture to describe, after show.", metavar="NAME", positional=True
    ),
    family: str | None = option(None, "Family of the architectures to list."),
    group: str | None = option(None, "Group of families to list, such as residual."),
    year: int | None = option(None, "Year of the architectures to list."),
    most_parameters: float | None = option(
        None, "Largest size, in millions of parameters.", flags=("--max-params",)
    ),
    sites: bool = option(
        False,
        "With show: list the elementwise non-linear calls of a forward pass, and why each is a "
        "site or none.",
    ),
    wide: bool = option(False, "Show published counts beside our own, and all columns."),
    home: HomeOption = DEFAULT_HOME,
    table: TableOptions,
) -> None:
    """List architectures, or describe one: survey models show NAME."""
    from catalog.home import Home
    from catalog.listing import Wanted, list_models
    from catalog.model_facts import show_model
    from catalog.model_sites import show_sites
    from survey import SettingsError

    wanted = Wanted(pattern, family, group, year, most_parameters)
    if pattern == "show":
        if name is None:
            raise SettingsError("show needs a name", hint="survey models show torchvision:resnet50")
        if wide or wanted != Wanted("show"):
            raise SettingsError(
                "show takes neither filters nor --wide: it describes one model",
                hint=f"survey models show {name}",
            )
        recall_consent()
        table.write(show_sites(name) if sites else show_model(name))
        return
    if sites:
        raise SettingsError(
            "--sites lists the calls of one model", hint="survey models show NAME --sites"
        )
    if name is not None:
        raise SettingsError(
            f"two patterns were given, {pattern!r} and {name!r}; one is taken",
            hint="quote a glob; survey models show NAME describes one model",
        )
    listed = list_models(wanted, Home(home.absolute()).cache)
    table.write(listed, None if wide else _HEADINGS)
    say(counted(listed.num_rows, "architecture"))
