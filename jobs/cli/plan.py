"""``survey plan``: the jobs that would run, those that are done, and an estimate of the time."""

from __future__ import annotations

from typing import Literal

from analysis.option_fields import option
from jobs.cli.consent import obtain_consent, recall_consent, trust_option
from jobs.cli.output import TableOptions
from jobs.cli.survey_options import SurveyOptions
from jobs.cli.terminal import say
from jobs.cli.verb import DEFAULT_HOME, HomeOption, verb


@verb
def plan(
    *,
    survey: SurveyOptions,
    workers: int = option(1, "Number of workers that the estimate is for.", minimum=1),
    device: Literal["cpu", "cuda"] = option("cpu", "Device that the estimate is for."),
    trust: bool = trust_option(),
    home: HomeOption = DEFAULT_HOME,
    table: TableOptions,
) -> None:
    """Show what a survey would measure, what is done already, and an estimate.

    Of python: models whose code nobody consented to (--trust), nothing is known.
    """
    from jobs.planning.targets import require_names

    definition = survey.definition()
    if trust:
        obtain_consent(definition, trust=True)
    else:
        recall_consent()
    require_names(definition)
    from jobs.operations.preview import MEASURE_COLUMNS, forecast

    foreseen = forecast(home, definition, device=device, workers=workers)
    rows = foreseen.table()
    unused = () if definition.measures else MEASURE_COLUMNS
    table.write(rows, {name: None for name in rows.column_names if name not in unused})
    say(*foreseen.summary().split("\n"))
