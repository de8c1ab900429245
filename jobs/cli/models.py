"""``survey models``: which architectures there are, and all that is known of one."""

from __future__ import annotations

from typing import Annotated

import typer

from jobs.cli.app import DEFAULT_HOME, HomeOption, verb
from jobs.cli.output import TableOptions
from survey.text import counted

PatternArgument = Annotated[
    str | None,
    typer.Argument(
        metavar="[PATTERN]",
        help="A name, a glob such as 'timm:convnext*' or a set; 'show NAME' tells all of one.",
        show_default=False,
    ),
]
NameArgument = Annotated[
    str | None, typer.Argument(metavar="[NAME]", help="After show.", show_default=False)
]


@verb
def models(
    *,
    pattern: PatternArgument = None,
    name: NameArgument = None,
    family: Annotated[str | None, typer.Option("--family", help="Only this family.")] = None,
    group: Annotated[
        str | None, typer.Option("--group", help="Only this group of families, as in the paper.")
    ] = None,
    year: Annotated[int | None, typer.Option("--year", help="Only this year.")] = None,
    most_parameters: Annotated[
        float | None, typer.Option("--max-params", help="At most so many million parameters.")
    ] = None,
    wide: Annotated[
        bool, typer.Option("--wide", help="With published figures beside those counted by us.")
    ] = False,
    home: HomeOption = DEFAULT_HOME,
    table: TableOptions,
) -> None:
    """List architectures, or tell all that is known of one: survey models show NAME."""
    from catalog.home import Home
    from catalog.listing import MODEL_HEADINGS, Wanted, list_models, show_model
    from survey import SettingsError

    wanted = Wanted(pattern, family, group, year, most_parameters)
    if pattern == "show":
        if name is None:
            raise SettingsError("show needs a name", hint="survey models show torchvision:resnet50")
        if wide or wanted != Wanted("show"):
            raise SettingsError(
                "show takes neither filters nor --wide: it tells all of one model",
                hint=f"survey models show {name}",
            )
        table.write(show_model(name))
        return
    if name is not None:
        raise SettingsError(
            f"two patterns were given, {pattern!r} and {name!r}; one is taken",
            hint="quote a glob; for all that is known of one model: survey models show NAME",
        )
    listed = list_models(wanted, Home(home.absolute()).cache)
    table.write(listed, None if wide else MODEL_HEADINGS)
    typer.echo(counted(listed.num_rows, "architecture"), err=True)
