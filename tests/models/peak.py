"""Build a text encoder from a file in a process of its own.

Prints in MB by how much its memory grew, its network, and what the process took in all. Other libraries import what
they find, so packages that come for tests or for GPUs are hidden.

python peak.py FILE QUANTIZE SMALL_FILE
"""

import re
import sys
from pathlib import Path
from typing import Any

HIDDEN: dict[str, Any] = dict.fromkeys(("accelerate", "peft", "triton"))


def resident(kind: str) -> float:
    """Memory of this process in MB: VmRSS is now, VmHWM the most since it was last set back."""
    found = re.search(rf"{kind}:\s+(\d+)", Path("/proc/self/status").read_text())
    assert found
    return int(found[1]) / 1024


def main(file: Path, quantize: str, small: Path) -> None:
    import torch

    from pipegraph.models.checkpoints.parts import part
    from pipegraph.models.loading.networks import build

    torch.set_num_threads(1)
    cpu = torch.device("cpu")
    build(part(small, "t5"), cpu, torch.float32, quantize)  # what is loaded once for all
    Path("/proc/self/clear_refs").write_text("5")  # sets VmHWM back
    before = resident("VmRSS")
    network: Any = build(part(file, "t5"), cpu, torch.float32, quantize)
    most = resident("VmHWM")  # not ru_maxrss, which begins with that of the process that started this one
    print(most - before, network.pipegraph_nbytes / (1 << 20), most)


if __name__ == "__main__":
    sys.modules |= HIDDEN
    main(Path(sys.argv[1]), sys.argv[2], Path(sys.argv[3]))
