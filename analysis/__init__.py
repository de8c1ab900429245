"""Read and explain what was measured: the notebook's face of a home.

>>> from analysis import signatures
>>> signatures("survey-home")
"""

from __future__ import annotations

from analysis.figures import signature_chart
from analysis.frames import layers, models, signatures

__all__ = ["layers", "models", "signature_chart", "signatures"]
