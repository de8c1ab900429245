"""A planned network and its datasets, as a worker loads them."""

from __future__ import annotations

from catalog.checkpoint_references import Checkpoint
from catalog.datasets import ImageDataset, open_dataset
from catalog.datasets.label_map import label_map
from catalog.downloads import FileStore
from catalog.home import Home
from catalog.model_loading import LoadedModel, load_model
from catalog.models import find
from catalog.models.consent import admit
from jobs.planning.job import Job
from jobs.runners.planned import ChangedWeights, require_images, require_planned


class Stage:
    """The stage a worker has reached, for the record of a failure."""

    name = "build"


class PlannedModel:
    """The network of a job with its weights, and the datasets beside it.

    Parameters
    ----------
    job : Job
        What was planned.
    stage : Stage
        Set to what is being done.

    Raises
    ------
    CatalogError
        If the code or the weights are not what was planned, or cannot be loaded.
    """

    #: On the CPU, in eval mode.
    loaded: LoadedModel

    def __init__(self, job: Job, stage: Stage) -> None:
        if job.code_sha256 is not None:
            admit([job.code_sha256])
        (architecture,) = find(job.full_name)
        require_planned("code", job.code_sha256, architecture.code_sha256)
        stage.name = "load"
        home = Home(job.home) if job.home else None
        self._store = FileStore(home.files) if home else None
        self._folder = home.datasets if home else None
        self.loaded = load_model(architecture, _present(job.checkpoint, self._store))
        require_planned("checkpoint", job.checkpoint_sha256, self.loaded.sha256, ChangedWeights)

    def dataset(self, job: Job, signature: str | None = None) -> ImageDataset:
        """Open a job's dataset; refuse one that is not what was planned.

        Parameters
        ----------
        job : Job
            Names the dataset.
        signature : str, optional
            What its files looked like here; by default what they looked like to the plan.
        """
        dataset = open_dataset(job.dataset, job.base, self._store, self._folder)
        require_images(dataset, signature or job.dataset_stat, job)
        return dataset

    def labels(self, dataset: ImageDataset) -> tuple[int, ...] | None:
        """Return the network's output for each class of a dataset; None where it has none."""
        return label_map(dataset.class_names, self.loaded.classes)


def _present(checkpoint: Checkpoint, store: FileStore | None) -> Checkpoint:
    """Return a checkpoint whose file is on this machine: homes may not be shared by all."""
    weights = checkpoint.published
    remote = (weights.file,) if weights and weights.file else checkpoint.remote
    here = all(path.exists() for path in checkpoint.files)
    if here or not remote or store is None:
        return checkpoint
    return checkpoint.located(*(store.get(file) for file in remote))
