"""What a run was trained on, in words: times are worth little without it."""

from __future__ import annotations

import platform
from pathlib import Path

import torch

CPU_INFO = Path("/proc/cpuinfo")


def describe_hardware(device: torch.device, processes: int = 1) -> str:
    """`NVIDIA A100`, or `Intel Xeon, 2 threads`; with the number of processes if several."""
    if device.type == "cuda":
        found = torch.cuda.get_device_name(device)
    elif device.type == "cpu":
        count = torch.get_num_threads()
        found = f"{processor_name()}, {count} thread{'s' if count > 1 else ''}"
    else:
        found = f"{processor_name()}, {device.type}"
    return found if processes == 1 else f"{processes} x {found}"


def processor_name() -> str:
    """Name of the processor, as far as the system knows it."""
    if CPU_INFO.exists():
        lines = CPU_INFO.read_text(encoding="utf-8", errors="replace").splitlines()
        names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
        if names:
            return names[0]
    return platform.processor() or platform.machine() or "CPU"
