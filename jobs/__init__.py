"""Plan, schedule and run many jobs anywhere, again. Read ``jobs/run.py`` first.

>>> from jobs import survey_models
>>> survey_models("small:digits_*", images_per_score=64).signatures()
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from survey.lazy import lazy_names

if TYPE_CHECKING:
    # Public names; the first use of one imports torch.
    from jobs.in_python import Surveyed, survey_models
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
