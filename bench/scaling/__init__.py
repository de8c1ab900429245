"""The parts of the predictions of ``bench/scale.py``, and what a batch costs the driver."""
