"""The verbs that answer questions, each made from the answers that ``analysis`` declares.

The first word of an answer's ``command`` is its verb. Of several answers the second word chooses
one: a flag, or the argument KIND. An option that belongs to another answer is refused.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from analysis.answers import ANSWERS, Answer
from analysis.answers.columns import columns_of
from analysis.answers.material import Material
from analysis.choices import Role
from analysis.data.selection import Selection
from analysis.option_fields import option
from jobs.cli.output import FigureOptions, TableFileOptions
from jobs.cli.terminal import say
from jobs.cli.verb import DEFAULT_HOME, AllRunsOption, HomeOption, is_given, options_of, verb
from survey.errors import NothingToDraw, SettingsError

#: Exit code where an answer is an alarm: something moved; or where there is nothing to draw.
ALARM = 1

#: The summary of a verb whose answers are chosen by KIND.
COMPARISONS = "Compare residual and plain networks, datasets, checkpoints, trainings or the paper."

RoleOption = Annotated[
    Role,
    typer.Option(
        "--role", help="Sites: all, those of the main path, or gates, which only scale others."
    ),
]

#: Answers of a verb by what chooses one: nothing, a flag, or a kind.
_Answers = Mapping[str, type[Answer]]

_KEYWORD = inspect.Parameter.KEYWORD_ONLY


def __getattr__(name: str) -> Callable[..., None]:
    """Return the verb of this name, for ``jobs.cli.main``."""
    answers = {
        each.command.partition(" ")[2]: each
        for each in ANSWERS
        if each.command.partition(" ")[0] == name
    }
    if not answers:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return _made(answers)


def _made(answers: _Answers) -> Callable[..., None]:
    """Return a verb as a function for typer."""
    # Where answers share an option, the first one's default is shown.
    options = {
        name: each
        for answer in reversed(list(answers.values()))
        for name, each in options_of(answer).items()
    }
    without = next(iter(answers.values())).without

    def run(
        *,
        context: typer.Context,
        selection: Selection,
        role: RoleOption = "all",
        all_runs: AllRunsOption = False,
        home: HomeOption = DEFAULT_HOME,
        table: TableFileOptions,
        figure: FigureOptions,
        **given: Any,
    ) -> None:
        from jobs.operations.answering import require_sites
        from jobs.scan.progress_display import watched

        chosen = _chosen(answers, given)
        asked = {name: given[name] for name in options if is_given(context, name)}
        for name in asked:
            _require_option(name, chosen, answers)
        figure.check()
        if "color_by" in asked and figure.file is None:
            raise SettingsError("--color-by goes with --figure", hint="add --figure FILE")
        newest = replace(selection, newest=not all_runs)
        material = Material(home, newest, role, watched, for_one=True)
        if "color_by" in asked:
            # Before anything is computed.
            material.colours(given["color_by"])
        answer = answers[chosen](material, **asked)
        if "role" not in without:
            require_sites(material, answer.read)
        drawn = deliver(answer, table, figure)
        if answer.alarm or not drawn:
            raise typer.Exit(ALARM)

    shared = dict(inspect.signature(run, eval_str=True).parameters)
    for name in ("given", *without):
        del shared[name]
    parameters = [*_choosers(answers), *options.values(), *shared.values()]
    vars(run)["__signature__"] = inspect.Signature(parameters)
    run.__doc__ = _summary(answers)
    return verb(run, "nothing was written; what was measured is untouched")


def _choosers(answers: _Answers) -> Iterator[inspect.Parameter]:
    """Yield the parameters that choose one of several answers."""
    kinds = tuple(name for name in answers if name and not name.startswith("--"))
    if kinds:
        argument = option(..., f"Comparison: {', '.join(kinds)}.", metavar="KIND", positional=True)
        yield inspect.Parameter("kind", _KEYWORD, default=argument, annotation=Literal[kinds])
    for name, answer in answers.items():
        if name.startswith("--"):
            flag = option(False, answer.question(), flags=(name,))
            yield inspect.Parameter(_flag(name), _KEYWORD, default=flag, annotation=bool)


def _chosen(answers: _Answers, given: Mapping[str, Any]) -> str:
    """Return the name of the answer that the kind or a flag chooses."""
    flags = [name for name in answers if given.get(_flag(name))]
    if len(flags) > 1:
        raise SettingsError(f"{' and '.join(flags)} exclude each other", hint="leave one out")
    chosen: str = given.get("kind") or "".join(flags)
    return chosen


def _flag(name: str) -> str:
    # Not the name alone: --families chooses an answer, --family the runs.
    return f"chosen_by_{name.strip('-').replace('-', '_')}"


def _require_option(name: str, chosen: str, answers: _Answers) -> None:
    """Refuse an option that the chosen answer does not have."""
    of = [choice for choice, answer in answers.items() if name in options_of(answer)]
    if chosen in of:
        return
    details = answers[of[0]].__dataclass_fields__[name].metadata
    metavar = details["metavar"].strip("[]") if details["positional"] else ""
    shown = metavar or (details["flags"] or (f"--{name.replace('_', '-')}",))[0]
    if of == [""]:
        raise SettingsError(f"{shown} and {chosen} exclude each other", hint="leave one out")
    known = " and ".join(filter(None, of))
    unlike = f", not with {chosen}" if chosen else ""
    raise SettingsError(f"{shown} goes with {known}{unlike}", hint="leave it out, or add one")


def _summary(answers: _Answers) -> str:
    """Return a verb's help text: that of its first answer, or a line a kind."""
    if "" in answers:
        return inspect.getdoc(answers[""]) or ""
    kinds = [f"{name}: {answer.question()}" for name, answer in answers.items()]
    return "\n\n".join((COMPARISONS, *kinds))


def deliver(answer: Answer, table: TableFileOptions, figure: FigureOptions) -> bool:
    """Write an answer's table, figure, finding, details and provenance.

    Returns
    -------
    bool
        False where a figure was asked for and there is nothing to draw.
    """
    import pyarrow as pa

    from analysis.data.run_tags import with_tag_columns
    from analysis.data.short_names import without_paths
    from jobs.operations.answering import given_answer

    given = given_answer(answer)
    rows = given.rows
    if given.warning:
        say(given.warning)
    lines = [given.finding, *given.details]
    # An empty table is left out in a terminal: the finding says as much.
    if len(rows) or table.format != "table" or table.output is not None:
        columns = [each for each in columns_of(answer.columns) if each.in_terminal(rows)]
        headings = {each.name: each.terminal for each in columns}
        if table.format == "table":
            shown = without_paths(rows)
        else:
            shown = with_tag_columns(rows, lambda: answer.material.models)
        table.write(pa.Table.from_pandas(shown, preserve_index=False), headings)
    drawn = True
    if figure.file is not None:
        line, drawn = _drawn(answer, figure, figure.file)
        lines.append(line)
    for line in (*lines, *given.notes, given.caption):
        say(line)
    return drawn


def _drawn(answer: Answer, figure: FigureOptions, file: Path) -> tuple[str, bool]:
    """Draw an answer into a file; return a message about that, and whether there was a drawing."""
    # Without a needed column, rows can be drawn that are no answer yet, such as a single year.
    if answer.known or (len(answer.rows) and not answer.needed):
        try:
            drawing = next(answer.drawings(), None)
            if drawing is not None and len(drawing.rows()):
                return figure.save(drawing.chart(), file), True
        except NothingToDraw as reason:
            return f"no figure was written: {reason.message}", False
    return "no figure was written: there is nothing to draw", False
