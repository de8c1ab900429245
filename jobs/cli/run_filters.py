"""Options that say which measured runs a verb is about, and what to say where there are none."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from survey.errors import SettingsError

if TYPE_CHECKING:
    from analysis.answers.material import Material

AllRunsOption = Annotated[
    bool,
    typer.Option("--all-runs", help="Older runs of the same models too, not only the newest."),
]


def require_sites(material: Material) -> None:
    """Refuse a selection that holds no site of a finished run, and say what to do.

    Raises
    ------
    SettingsError
        If there is none.
    """
    if len(material.signatures):
        return
    statuses = list(material.models["status"])
    if not statuses:
        raise SettingsError(
            f"nothing was measured in {material.home} yet",
            hint="survey run measures; survey demo measures eight small networks in a minute",
        )
    if "done" not in statuses:
        raise SettingsError(
            f"none of {len(statuses)} selected runs in {material.home} has finished",
            hint="survey status shows how far they are, and what failed",
        )
    raise SettingsError(f"no selected run has {material.role} sites", hint="leave out --role")
