"""What a comparison of runs with earlier ones gives: a verdict on every site, and the finding."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import pandas as pd

from analysis.text import listed, number
from survey.text import counted

#: Verdicts on a site that make drift.
MOVES = ("moved", "status changed")

#: The verdict on a site whose score is not the network's, by its flags.
OUT = "left out"

#: Verdicts on what stayed as it was.
QUIET = ("unchanged", "stayed", OUT)

#: Columns of the report, one row a site, or a run that has no sites to compare.
COLUMNS = {
    **dict.fromkeys(("verdict", "architecture", "checkpoint", "dataset", "before", "after"), "str"),
    "site": "Int64",
    "site_name": "str",
    **dict.fromkeys(("affinity_before", "affinity_after", "difference"), "float64"),
    **dict.fromkeys(("standard_error", "low", "high", "detectable"), "float64"),
    "test": "str",
    **dict.fromkeys(("p", "p_corrected", "q"), "float64"),
    "flags": "object",
    "detail": "str",
}


@dataclass(frozen=True, slots=True)
class Drift:
    """How signatures differ from those measured before."""

    #: One row a site of every compared pair, and one a run that appeared, vanished or could not
    #: be compared; the columns of ``COLUMNS``.
    rows: pd.DataFrame
    #: How many pairs of runs were compared.
    pairs: int
    #: Smallest difference that matters.
    tolerance: float
    #: Family-wise error level.
    level: float

    @property
    def moved(self) -> bool:
        """Whether anything moved beyond the tolerance."""
        return bool(self.rows["verdict"].isin(MOVES).any())

    @property
    def news(self) -> pd.DataFrame:
        """The rows of what did not stay as it was."""
        return self.rows[~self.rows["verdict"].isin(QUIET)].reset_index(drop=True)

    @property
    def tests(self) -> int:
        """How many tests the family holds."""
        return int(self.rows["p"].notna().sum())

    def finding(self) -> str:
        """Return how many sites moved, and which moved farthest, as a sentence."""
        rows = self.rows[self.rows["difference"].notna()]
        moved = rows[rows["verdict"] == "moved"]
        pairs = counted(self.pairs, "pair of runs", "pairs of runs")
        changed = int((self.rows["verdict"] == "status changed").sum())
        status = f"the status of {counted(changed, 'site')} changed" if changed else ""
        if rows.empty and not changed:
            out = int((self.rows["verdict"] == OUT).sum())
            left = f"No site is compared: {counted(out, 'site')} left out"
            none = "No site is compared" if self.pairs else "No site was measured before"
            return left if out else none
        if moved.empty:
            still = f"no move is shown at any of {counted(len(rows), 'site')}" if len(rows) else ""
            text = "; ".join(filter(None, (status, still)))
            return f"{text[0].upper()}{text[1:]} (n = {pairs})"
        largest = moved.iloc[int(moved["difference"].abs().argmax())]
        return (
            f"{len(moved)} of {counted(len(rows), 'site')} moved, in"
            f" {listed(dict.fromkeys(moved['architecture']))}; farthest {largest['site_name']},"
            f" from {number(largest['affinity_before'])} to {number(largest['affinity_after'])}"
            f"{'; ' * bool(status)}{status} (n = {pairs})"
        )

    def sentences(self) -> list[str]:
        """Return what was tested, how large a move had to be, and how often each verdict fell."""
        counts = Counter(self.rows["verdict"])
        order = (*MOVES, *(verdict for verdict in sorted(counts) if verdict not in MOVES))
        verdicts = ", ".join(f"{name}: {counts[name]}" for name in order if name in counts)
        tested = (
            f"pairs of runs compared: {self.pairs}, sites tested: {self.tests}; tolerance"
            f" {self.tolerance:g}, family-wise level {self.level:g} (Holm)"
        )
        last = verdicts or "no finished run has a predecessor"
        return [tested, *self._power(), *self._causes(), last]

    def _causes(self) -> list[str]:
        """Return what the runs of pairs are known to differ in beside scores."""
        of_pairs = self.rows[self.rows["difference"].notna()].drop_duplicates(["before", "after"])
        causes = Counter(each for text in of_pairs["detail"] for each in text.split(", ") if each)
        shown = ", ".join(f"{each} ({count})" for each, count in causes.most_common())
        return [f"what else differs, in pairs of runs: {shown}"] if shown else []

    def _power(self) -> list[str]:
        """Return how large a move had to be to be detected."""
        sizes = self.rows.loc[self.rows["standard_error"] > 0, "detectable"].dropna()
        if sizes.empty:
            return []
        middle = "more than 1, so none" if sizes.median() > 1 else f"{sizes.median():.2g}"
        return [f"a move of one site was sure to be shown from {middle} on, in the median site"]
