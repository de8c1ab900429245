"""What takes minutes, computed in a process of its own, which ends with whoever asked for it."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Any

from jobs.service.problems import Unavailable
from jobs.service.settings import NICENESS
from survey.errors import SurveyError
from survey.text import format_duration


class OwnProcess:
    """Calls a function in a process of its own, once.

    Parameters
    ----------
    function : callable
        A function of a module.
    *given
        Its arguments.
    """

    def __init__(self, function: Callable[..., Any], *given: Any) -> None:
        # Not forked: this process has threads. As a daemon it ends with this process.
        context = multiprocessing.get_context("spawn")
        self._result, result = context.Pipe(duplex=False)
        self._process = context.Process(target=_call, args=(result, function, given), daemon=True)
        self._process.start()
        result.close()

    def end(self) -> None:
        """End it, from any thread: whoever waits for the result gets ``Unavailable``."""
        self._process.kill()

    def result(self, seconds: float) -> Any:
        """Return what the function returns.

        Raises
        ------
        SurveyError
            If the function does.
        Unavailable
            If it takes longer, or its process ends before.
        """
        try:
            if not self._result.poll(seconds):
                raise Unavailable(
                    f"the answer is not ready after {format_duration(seconds)}",
                    "choose fewer models",
                )
            result = self._result.recv()
        except EOFError:
            raise Unavailable(
                "the process of the answer ended, as it does when memory is short",
                "choose fewer models",
            ) from None
        finally:
            self._process.kill()
            self._process.join()
        if isinstance(result, SurveyError):
            raise result
        return result


def _call(result: Connection, function: Callable[..., Any], given: tuple[Any, ...]) -> None:
    os.nice(NICENESS)
    try:
        result.send(function(*given))
    except SurveyError as error:
        result.send(error)
