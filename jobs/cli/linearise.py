"""``survey linearise``: train networks while a penalty makes their ReLUs linear."""

from __future__ import annotations

import shutil
import sys
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from analysis.option_fields import option
from jobs.choices import PLAIN_EPOCHS
from jobs.cli.consent import obtain_consent, trust_option
from jobs.cli.output import TableFileOptions
from jobs.cli.terminal import complain, say
from jobs.cli.verb import DEFAULT_HOME, SOME_FAILED, HomeOption, verb
from jobs.runners.options import RunnerOptions
from survey.errors import SettingsError
from survey.linearising.settings import LinearisationSettings
from survey.text import counted, format_duration, printable

if TYPE_CHECKING:
    from jobs.linearisation import Linearisation
    from jobs.planning.linearisation import Beginning, LinearisationJob, LinearisationSweep
    from jobs.runners.events import Event

_DEFAULTS = LinearisationSettings(plain_epochs=PLAIN_EPOCHS)

#: The settings that are alike in all trainings of a sweep.
_SHARED = ("epochs", "plain_epochs", "images_per_step", "learning_rate", "weight_decay")


@dataclass(frozen=True, slots=True)
class SweepOptions:
    """The options of a sweep: its networks, penalties and seeds, and how they are trained."""

    model: list[str] | None = option(
        None,
        "Architecture or glob, as for survey run; may be repeated.",
        none="small:digits_vgg7",
        flags=("--model", "-m"),
    )
    omega: list[float] | None = option(
        None, "Weight of the penalty, 0 or more; may be repeated.", none="0.01"
    )
    seed: list[int] | None = option(
        None, "Seed of the initial weights and the order of images; may be repeated.", none="0"
    )
    beginning: list[str] | None = option(
        None,
        "When the penalty comes: late, to a trained network, or early, before the passes"
        " without it; may be repeated.",
        none="both",
    )
    checkpoint: str | None = option(
        None,
        "Weights of a trained network to begin with, as for survey run; late alone.",
        none="they are trained here",
        flags=("--checkpoint", "-c"),
    )
    train: str = option("digits:train", "Dataset to train on, with labels.")
    heldout: str = option("digits:heldout", "Dataset to count the accuracy on, with labels.")
    epochs: int = option(_DEFAULTS.epochs, "Passes over the images with the penalty.")
    plain_epochs: int = option(
        _DEFAULTS.plain_epochs,
        "Passes without it: before them in late linearisations, after them in early ones.",
    )
    images_per_step: int = option(_DEFAULTS.images_per_step, "Images in one step.")
    learning_rate: float = option(_DEFAULTS.learning_rate, "The highest learning rate.")
    weight_decay: float = option(_DEFAULTS.weight_decay, "Penalty on weights, but not on slopes.")

    def sweep(self) -> LinearisationSweep:
        """Return the sweep.

        Raises
        ------
        SettingsError
            If a value is not allowed.
        """
        from jobs.planning.linearisation import LinearisationSweep

        shared: dict[str, Any] = {name: getattr(self, name) for name in _SHARED}
        omegas, seeds = self.omega or [_DEFAULTS.omega], self.seed or [0]
        for omega in omegas:
            for seed in seeds:
                LinearisationSettings(omega=omega, seed=seed, **shared)
        return LinearisationSweep(
            models=self.model or ["small:digits_vgg7"],
            omegas=omegas,
            seeds=seeds,
            beginnings=[_beginning(each) for each in self.beginning or ("late", "early")],
            train=self.train,
            heldout=self.heldout,
            checkpoint=self.checkpoint,
            settings=LinearisationSettings(**shared),
        )


def _beginning(name: str) -> Beginning:
    if name == "late":
        return "late"
    if name == "early":
        return "early"
    raise SettingsError(f"beginning is {name!r}, must be late or early")


@partial(verb, interrupted="finished passes are kept: run the same command again to go on")
def linearise(
    *,
    sweep: SweepOptions,
    plan: bool = option(False, "Show what would be trained and for how long; train nothing."),
    trust: bool = trust_option(),
    options: RunnerOptions,
    home: HomeOption = DEFAULT_HOME,
    table: TableFileOptions,
) -> None:
    """Train networks while a penalty makes their ReLUs linear, channel by channel.

    Writes the accuracy on other images, the path length and the channels that are left, for every
    model with every penalty and seed. Running the same command again goes on where it stopped, also
    within a training.
    """
    from jobs.planning.definition import parse_definition
    from jobs.planning.targets import require_names

    declared = sweep.sweep()
    weights = ["init:0" if declared.checkpoint is None else declared.checkpoint]
    names = {
        "models": [{"name": name, "checkpoints": weights} for name in declared.models],
        "datasets": [{"name": name} for name in (declared.train, declared.heldout)],
    }
    definition = parse_definition(names, "linearisation", Path())
    obtain_consent(definition, trust=trust)
    require_names(definition)
    from catalog.open_home import existing_home, open_home
    from jobs.cli.run import runner_of
    from jobs.linearisation import (
        linearisation_table,
        linearisations,
        planned_linearisations,
        run_linearisations,
    )
    from jobs.scan.interruption import termination_interrupts

    runner = runner_of(options)
    if plan:
        planned = planned_linearisations(existing_home(home), declared)
        say(_summary(planned))
        table.write(linearisation_table(planned))
        return
    opened = open_home(home, create=True)
    planned = planned_linearisations(opened, declared)
    say(_summary(planned))
    with termination_interrupts():
        failed = run_linearisations(opened, planned, runner, _Progress(planned))
    jobs, lost = [each.job for each in planned], [job.run_id for job, _ in failed]
    table.write(linearisation_table(linearisations(opened, jobs, lost)))
    for job, failure in failed:
        complain(f"{job.title}: {failure.stage}: {failure.message}", failure.hint)
    if failed:
        raise typer.Exit(SOME_FAILED)


def _summary(planned: list[Linearisation]) -> str:
    """Return how many trainings there are, and how long those that are left may take."""
    left = [each for each in planned if each.result is None]
    trainings = f"{counted(len(planned), 'training')}: {len(planned) - len(left)} done"
    if not left:
        return trainings
    seconds = sum(each.seconds or 0.0 for each in left)
    return (
        f"{trainings}, {len(left)} to do, about {format_duration(seconds)} on one worker as fast as"
        " this process (timed now)"
    )


class _Progress:
    """Shows the passes on a terminal, and every training that ends."""

    def __init__(self, planned: list[Linearisation]) -> None:
        self._left = sum(each.result is None for each in planned)
        self._ended = 0
        self._shown = 0

    def __call__(self, job: LinearisationJob, event: Event, passes: int) -> None:
        """Show an event of a job."""
        from jobs.runners.events import Failed, Finished, Lost, NetworkLinearised, Trained

        if isinstance(event, Trained):
            last = event.state.passes[-1]
            self._rewrite(
                f"{job.title}: pass {passes} of {job.settings.passes}, loss {last.loss:.3f},"
                f" {last.active} active channels"
            )
        elif isinstance(event, NetworkLinearised):
            self._ended += 1
            self._rewrite("")
            say(
                f"{self._ended} of {self._left}: {job.title}: top-1 {event.result['top1']:.4f},"
                f" path length {event.result['path_length_normalised']:.3f}"
            )
        elif isinstance(event, (Failed, Lost)):
            self._ended += isinstance(event, Failed)
            self._rewrite("")
            say(f"{job.title}: {event.message}")
        elif isinstance(event, Finished):
            self._rewrite("")

    def _rewrite(self, text: str) -> None:
        """Replace the line that is not ended yet."""
        if not sys.stderr.isatty():
            return
        text = printable(text)[: shutil.get_terminal_size().columns - 1]
        sys.stderr.write("\r" + text.ljust(self._shown) + ("" if text else "\r"))
        sys.stderr.flush()
        self._shown = len(text)
