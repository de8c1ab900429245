"""``survey demo``: the bundled zoo on the bundled digits, on a local Ray, offline."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from pathlib import Path

import typer

from analysis.option_fields import option
from jobs.cli.output import TableOptions
from jobs.cli.terminal import say
from jobs.cli.verb import DEFAULT_HOME, SOME_FAILED, HomeOption, verb

#: What the demo measures.
DEMO_MODELS = "small:digits_*"

#: A question the demo's home can answer: are sites after a shortcut more linear?
DEMO_SQL = """\
SELECT architecture, site_name LIKE '%relu2%' AS closes_block,
       round(avg(affinity), 3) AS affinity, count(*) AS sites
FROM latest_signatures GROUP BY ALL ORDER BY architecture, closes_block"""


@verb
def demo(
    *,
    runner: str = option("ray", "Where jobs are computed: ray or local."),
    home: HomeOption = DEFAULT_HOME,
    table: TableOptions,
) -> None:
    """Survey eight small trained networks and print what to try next. Needs no network."""
    from jobs.cli.run import carry_out, report, runner_of
    from jobs.planning.definition import Definition
    from jobs.planning.survey_tables import ModelChoice
    from jobs.runners.options import RunnerOptions

    definition = Definition(name="demo", models=(ModelChoice(name=DEMO_MODELS),))
    outcome = carry_out(home, definition, runner_of(RunnerOptions(runner=runner)))
    report(home, outcome, table)
    _next_steps(home)
    if not outcome.complete:
        raise typer.Exit(SOME_FAILED)


def _next_steps(home: Path) -> None:
    from analysis.data.frames import signatures
    from analysis.figures import save, signature_chart
    from catalog.open_home import open_home

    figure = home / "demo.svg"
    save(signature_chart(signatures(home)), figure)
    opened = open_home(home, create=False)
    shown = "" if home == DEFAULT_HOME else f" --home {shlex.quote(str(home))}"
    # Out of a virtual environment that is not active, the short name would not be found.
    program = "survey" if shutil.which("survey") else shlex.quote(os.path.relpath(sys.argv[0]))
    text = f"""
Where everything lies
  signatures   {opened.signatures}
  registry     {opened.registry}
  figure       {figure}

SQL to try next
  {program} sql{shown} "
{DEMO_SQL}"
"""
    say(*text.split("\n"))
