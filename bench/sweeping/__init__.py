"""The parts of the sweep over networks; ``bench/sweep.py`` runs it."""
