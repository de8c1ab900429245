"""Our own runners keep the contract of every runner."""

import dataclasses

import pytest

from jobs.contract_tests.runner import RunnerContract
from jobs.runners import make_runner
from jobs.runners.options import RunnerOptions
from survey import SettingsError
from tests.jobs.runners.ray_heads import dying_starts, head


class TestLocalRunner(RunnerContract):
    separate_processes = False

    def make_runner(self, options):
        return make_runner(
            RunnerOptions(runner="local", device=options.device, threads=options.threads)
        )

    @pytest.mark.parametrize("options", [{"workers": 2}, {"address": "auto"}])
    def test_more_than_this_process_is_refused(self, options):
        with pytest.raises(SettingsError, match="--runner local"):
            make_runner(RunnerOptions(runner="local", **options))


@pytest.mark.ray
@pytest.mark.slow(seconds=60)
@pytest.mark.long
class TestRayRunner(RunnerContract):
    @pytest.fixture(autouse=True, scope="class")
    @classmethod
    def cluster(cls):
        """One cluster for all: starting one for each takes longer than most tests."""
        with head() as started:
            cls.address = f"127.0.0.1:{started.port}"
            yield

    def make_runner(self, options):
        return make_runner(dataclasses.replace(options, address=self.address))

    def dying_starts(self, count):
        return dying_starts(count)
