"""Devices and processes: how a run starts on them, and what they are in words."""

from __future__ import annotations

import atexit
import os
import platform
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import torch
import torch.distributed as dist

from csot.training.config import MachineConfig, RunConfig

if TYPE_CHECKING:
    from lightning_fabric import Fabric

CPU_INFO = Path("/proc/cpuinfo")


def start_fabric(config: RunConfig) -> Fabric:
    """Set up devices and processes; under torchrun, as many as it has started."""
    # With it comes torch's compiler, which takes a second: who only predicts should not wait.
    from lightning_fabric import Fabric
    from lightning_fabric.strategies.ddp import DDPStrategy

    machine = config.machine
    devices = int(os.environ.get("LOCAL_WORLD_SIZE", machine.devices))
    processes = int(os.environ.get("WORLD_SIZE", devices))
    # Buffers are batch statistics of each process, or per-sample state that methods keep in sync.
    parallel = DDPStrategy(find_unused_parameters=True, broadcast_buffers=False)
    fabric = Fabric(
        accelerator=machine.accelerator,
        devices=devices,
        num_nodes=max(1, processes // devices),
        precision=choose_precision(machine),
        strategy=parallel if processes > 1 else "auto",
    )
    fabric.launch()
    if processes > 1:
        atexit.register(destroy_process_group)
    fabric.barrier()  # the first process prepared the folder before it reached this line
    if config.training.batch_size % fabric.world_size:
        raise ValueError(
            f"batch_size {config.training.batch_size} cannot be shared by {fabric.world_size} "
            "processes: choose a multiple of their number"
        )
    return fabric


def choose_precision(machine: MachineConfig) -> Literal["32-true", "16-mixed", "bf16-mixed"]:
    """The configured precision; "auto" is mixed precision on a GPU."""
    if machine.precision != "auto":
        return machine.precision
    if machine.accelerator not in ("auto", "cuda", "gpu") or not torch.cuda.is_available():
        return "32-true"
    return "bf16-mixed" if torch.cuda.is_bf16_supported() else "16-mixed"


def destroy_process_group() -> None:
    """Stop the threads of the process group before the interpreter exits.

    Fabric does so for NCCL only; with Gloo a process sometimes aborts at exit.
    """
    if dist.is_initialized():
        dist.destroy_process_group()


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
    """Name of the processor, if the system reports it."""
    if CPU_INFO.exists():
        lines = CPU_INFO.read_text(encoding="utf-8", errors="replace").splitlines()
        names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
        if names:
            return names[0]
    return platform.processor() or platform.machine() or "CPU"
