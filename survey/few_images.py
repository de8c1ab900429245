"""Too few images for a score's channels: the rule of the flag ``few_images``, and of ``auto``.

With no more images than channels, covariances are estimated from fewer values than they have
directions: the score is defined, but depends on the number of images, and is mostly too high.
"""

from __future__ import annotations

from collections.abc import Mapping

from survey.settings import USUAL_IMAGES


def enough_images(channels: int) -> int:
    """Return the fewest images with which a score of so many channels bears no flag."""
    return channels + 1


def flagged_sites(widths: Mapping[int, int], images: int) -> int:
    """Return how many sites bear the flag.

    Parameters
    ----------
    widths : mapping of int to int
        Sites by channels.
    images : int
        Images in one score.
    """
    return sum(sites for channels, sites in widths.items() if images < enough_images(channels))


def automatic_images(widths: Mapping[int, int], available: int | None = None) -> int:
    """Return the images in one score that ``images_per_score = "auto"`` stands for.

    Parameters
    ----------
    widths : mapping of int to int
        Sites by channels.
    available : int, optional
        Images in the dataset, where their number is known.

    Returns
    -------
    int
        As many as the widest site needs, not fewer than are usual, and not more than there are.
    """
    wanted = max(USUAL_IMAGES, enough_images(max(widths, default=0)))
    return wanted if available is None else min(wanted, available)
