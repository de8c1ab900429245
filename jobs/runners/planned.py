"""Whether a worker finds what was planned: the job's key was made from it.

Other content would be recorded under its name.
"""

from __future__ import annotations

from catalog.datasets.base import ImageDataset
from jobs.planning.job import Job
from survey import CatalogError


class ChangedWeights(CatalogError):
    """The weights are not those that were planned."""


def require_planned(
    what: str, planned: object, present: object, kind: type[CatalogError] = CatalogError
) -> None:
    """Refuse what is not as planned.

    Raises
    ------
    CatalogError
        Of that kind.
    """
    if planned != present:
        raise kind(
            f"the {what} changed since the run was planned: {planned} then, {present} now",
            hint="run the same command again: what is there then is measured as a run of its own;"
            " of several machines, all need the same files",
        )


def require_images(dataset: ImageDataset, signature: str, job: Job) -> None:
    """Refuse a dataset whose content changed; its files may look otherwise on another machine.

    Parameters
    ----------
    dataset : ImageDataset
        As it is opened here.
    signature : str
        What its files looked like.
    job : Job
        Knows its fingerprint.

    Raises
    ------
    CatalogError
        If its content is another one.
    """
    if dataset.stat_signature() != signature:
        require_planned("dataset", job.dataset_fingerprint, dataset.fingerprint())
