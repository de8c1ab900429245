"""The images of a plan's jobs: what ``auto`` stands for, whether they do, and their preparation."""

from __future__ import annotations

import dataclasses
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence

from catalog.isolated_widths import isolated_widths
from catalog.models.memory import MemorySource
from catalog.models.python import TRANSFORM, PythonSource
from catalog.site_widths import counted_widths, listed_widths
from jobs.planning.job import Job
from survey import MeasureSettings
from survey.few_images import automatic_images, enough_images, flagged_sites
from survey.results import flag_sentences
from survey.settings import AUTO, Pooling
from survey.text import counted

#: Names up to which a line lists them.
MOST_NAMES = 3

#: Widths of networks that no table lists, by name and pooling, once a number was chosen by them.
_COUNTED: dict[tuple[str, Pooling], Mapping[int, int]] = {}


def widths_to_choose_by(
    settings: MeasureSettings, full_names: Iterable[str]
) -> Mapping[str, Mapping[int, int]]:
    """Return the widths of the networks whose number is to be chosen, none where it is declared.

    Parameters
    ----------
    settings : MeasureSettings
        The declared settings.
    full_names : iterable of str
        The architectures' full names. What no table lists is run once in another process.
    """
    if settings.images_per_score != AUTO:
        return {}
    known = {name: listed_widths(name, settings.pooling) for name in full_names}
    unlisted = [name for name, widths in known.items() if not widths]
    # Another process does not have the networks that are in memory here.
    here = [name for name in unlisted if name.startswith(f"{MemorySource.name}:")]
    known |= {name: counted_widths(name, settings.pooling) for name in here}
    apart = tuple(name for name in unlisted if name not in here)
    known |= isolated_widths(apart, settings.pooling)
    _COUNTED.update({(name, settings.pooling): known[name] for name in unlisted})
    return known


def with_number(
    settings: MeasureSettings, widths: Mapping[int, int], available: int
) -> MeasureSettings:
    """Return settings with a number of images in one score, declared or chosen for a network.

    Parameters
    ----------
    settings : MeasureSettings
        The declared settings.
    widths : mapping of int to int
        The network's sites by channels.
    available : int
        Images in the dataset.
    """
    if settings.images_per_score != AUTO:
        return settings
    return dataclasses.replace(settings, images_per_score=automatic_images(widths, available))


def notices(jobs: Sequence[Job], todo: Sequence[Job], automatic: bool) -> list[str]:
    """Return what the networks of a plan chose, and what is to be known of the jobs to be done.

    That is which have too few images, and whose images are prepared as nobody declared.

    Parameters
    ----------
    jobs, todo : sequence of Job
        All jobs of the plan, and those to be done.
    automatic : bool
        Whether its networks choose.
    """
    chosen = [_chosen_line(jobs)] if automatic and jobs else []
    return [*chosen, *_few_images_lines(todo), *_preparation_lines(todo)]


def _chosen_line(jobs: Iterable[Job]) -> str:
    """Return which numbers ``auto`` chose for jobs, in a line."""
    networks: defaultdict[int, dict[str, None]] = defaultdict(dict)
    for job in jobs:
        networks[job.settings.score_images][job.full_name] = None
    parts = (f"{number} for {_listed(list(names))}" for number, names in sorted(networks.items()))
    return f"images_per_score auto: {', '.join(parts)}"


def _few_images_lines(jobs: Sequence[Job]) -> Iterator[str]:
    """Yield how many sites of jobs have too few images, and how many would do, if any have."""
    # Others would have to run here, where one that crashes or hangs would end the scan.
    unknown = {job.full_name for job in jobs if not _known_widths(job)}
    flagged = sites = enough = 0
    available: dict[str, int] = {}
    for job in jobs:
        widths, number = _known_widths(job), job.settings.score_images
        sites += sum(widths.values())
        if few := flagged_sites(widths, number):
            flagged, needed = flagged + few, enough_images(max(widths))
            enough = max(enough, needed)
            if job.images < needed:
                available[job.dataset] = job.images
    yield from flag_sentences(
        {"few_images": flagged}, "would be marked", sites=sites, enough=enough
    )
    for dataset, images in available.items():
        yield f"{dataset} has {counted(images, 'image')}, too few for that"
    if unknown:
        yield f"few_images: the widths of {counted(len(unknown), 'network')} are not known yet"


def _preparation_lines(jobs: Sequence[Job]) -> Iterator[str]:
    """Yield which networks of the user's see images as those of ImageNet do, if any."""
    names = {
        job.full_name: None
        for job in jobs
        if job.source == PythonSource.name and job.transform == TRANSFORM
    }
    if names:
        yield (
            f"{_listed(list(names))}: {TRANSFORM.size} x {TRANSFORM.size} pixels, normalised as for"
            " ImageNet; the function's attribute survey says otherwise, such as make_net.survey ="
            ' {"size": 32, "classes": 10} (docs/catalog.md)'
        )


def _known_widths(job: Job) -> Mapping[int, int]:
    name, pooling = job.full_name, job.settings.pooling
    return listed_widths(name, pooling) or _COUNTED.get((name, pooling), {})


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names) if len(names) <= MOST_NAMES else counted(len(names), "network")
