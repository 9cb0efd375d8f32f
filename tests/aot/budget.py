"""What kernels took when they were last looked at: ``python tests/aot/budget.py`` compiles all and rewrites the file.

python tests/aot/budget.py [PART OF A NAME ...] [--on sm_90,...] [--missing]

``--missing`` leaves out what the file has already.
"""

from __future__ import annotations

import importlib.util
import json
import os
import sys
import time
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
FILE = HERE / "aot_budget.json"


def load(name: str) -> Any:
    """A module of this folder, under either way of importing."""
    if name in sys.modules:
        return sys.modules[name]
    spec = importlib.util.spec_from_file_location(name, HERE / f"{name}.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def measure(case: Any, architecture: str) -> dict[str, dict[str, int]]:
    """Compile a case: kernel -> what it takes. A kernel that is launched twice in different forms is numbered."""
    from pipegraph.kernels.backends.triton.ahead import compiling, resources

    with compiling(architecture) as launches:
        case.call()
    found: dict[str, dict[str, int]] = {}
    for launch in launches:
        taken = resources(launch.kernel)
        same = [name for name in found if name.partition("#")[0] == launch.name]
        if not any(found[name] == taken for name in same):
            found[f"{launch.name}#{len(same) + 1}" if same else launch.name] = taken
    return found


def read() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(FILE.read_text()) if FILE.exists() else {"triton": "", "kernels": {}}
    return found


def write(kernels: dict[str, Any]) -> None:
    """One line a kernel, so that a change is a line of a diff."""
    import triton

    lines = []
    for case in sorted(kernels):
        parts = [f"      {json.dumps(arch)}: {json.dumps(kernels[case][arch])}" for arch in sorted(kernels[case])]
        lines.append(f"    {json.dumps(case)}: {{\n" + ",\n".join(parts) + "\n    }")
    head = f'{{\n  "triton": {json.dumps(triton.__version__)},\n  "kernels": {{\n'
    FILE.write_text(head + ",\n".join(lines) + "\n  }\n}\n")


def record(case: Any, architecture: str) -> None:
    """Compile a case and put what it takes into the file."""
    start = time.process_time()
    try:
        found = measure(case, architecture)
    except Exception as error:
        print(f"{case.name} {architecture}: {type(error).__name__}: {str(error)[:300]}", flush=True)
        return
    print(f"{case.name} {architecture} {time.process_time() - start:.1f} s: {json.dumps(found)}", flush=True)
    kernels = read()["kernels"]
    kernels.setdefault(case.name, {})[architecture] = found
    cases = load("cases").CASES
    kept = {
        name: {arch: by[arch] for arch in cases[name].on if arch in by} for name, by in kernels.items() if name in cases
    }
    write({name: by for name, by in kept.items() if by})


def main(words: list[str]) -> None:
    """Record the cases of which one of the words is a part, or all; those of the fast tests first."""
    known = read()["kernels"] if "--missing" in words else {}
    words = [word for word in words if word != "--missing"]
    only = words[words.index("--on") + 1].split(",") if "--on" in words else None
    words = words[: words.index("--on")] if only else words
    cases = load("cases")
    chosen = [c for c in cases.CASES.values() if not words or any(word in c.name for word in words)]
    pairs = [(case, arch) for case in chosen for arch in case.on if not only or arch in only]
    pairs = [(case, arch) for case, arch in pairs if arch not in known.get(case.name, {})]
    for case, architecture in sorted(pairs, key=lambda pair: cases.FAST.get(pair[0].name) != pair[1]):
        record(case, architecture)


if __name__ == "__main__":
    os.environ.setdefault("TRITON_CACHE_DIR", str(HERE.parents[1] / ".pytest_cache" / "triton"))
    main(sys.argv[1:])
