"""The hardware of a worker: its name and its memory in use."""

from __future__ import annotations

import os
import platform
from contextlib import suppress
from functools import cache
from pathlib import Path

import torch

from jobs.runners.events import Host


def host_of(device: torch.device, threads: int) -> Host:
    """Return the device and process of a worker in this process."""
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else _processor()
    return Host(device.type, name, threads, platform.node(), os.getpid())


def reset_peak_memory(device: torch.device) -> None:
    """Start a new count of the most memory in use."""
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)
        return
    with suppress(OSError):
        # Linux: the process's high-water mark becomes what it holds now.
        Path("/proc/self/clear_refs").write_text("5", encoding="ascii")


def peak_memory(device: torch.device) -> int | None:
    """Return the most bytes in use since the last reset; None where unknown."""
    if device.type == "cuda":
        return int(torch.cuda.max_memory_allocated(device))
    for line in _lines("/proc/self/status"):
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024
    return None


@cache
def _processor() -> str:
    """Return the processor's model name, or its architecture where that is unknown."""
    names = [
        line.split(":", 1)[1].strip()
        for line in _lines("/proc/cpuinfo")
        if line.startswith("model name")
    ]
    return names[0] if names else platform.processor() or platform.machine()


def _lines(path: str) -> list[str]:
    try:
        return Path(path).read_text(encoding="utf-8").splitlines()
    except OSError:
        return []
