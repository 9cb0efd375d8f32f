"""What libraries import and a run does not use is imported when it is used, and by everybody else at once."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from textwrap import dedent

import pytest

BEGIN = """
import sys
from pipegraph import lean_imports
lean_imports.IMPORTERS |= {"library"}
lean_imports.DEFERRED += ("heavy",)
lean_imports.GATHERING |= {"library.parts"}
lean_imports.install()
lean_imports.install()
assert sum(type(f).__module__ == lean_imports.__name__ for f in sys.meta_path) == 1

def loaded(name):
    module = sys.modules.get(name)
    return module is not None and not isinstance(module, lean_imports._StandIn)
"""


@pytest.fixture
def packages(tmp_path: Path) -> Path:
    """A library that imports a heavy package, and a package of its own that imports all its modules."""
    files = {
        "heavy/__init__.py": "from .deep import double\nnumbers = [1, 2]",
        "heavy/deep.py": "class Base:\n    kind = 'base'\ndef double(x): return 2 * x",
        "library/__init__.py": """
            import heavy
            from heavy import double, numbers
            from heavy.deep import Base
            def is_base(x): return isinstance(x, Base)
            def is_base_or_text(x): return isinstance(x, Base | str)
            def is_base_or_none(x): return isinstance(x, Base | None)
            """,
        "library/child.py": "from heavy.deep import Base\nclass Child(Base): pass",
        "library/parts/__init__.py": "from .one import ONE\nfrom .two import TWO",
        "library/parts/one.py": "ONE = 1",
        "library/parts/two.py": "TWO = 2",
        "other.py": "import heavy\nfrom heavy.deep import double",
    }
    for name, text in files.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(dedent(text))
    return tmp_path


def run(folder: Path, code: str) -> str:
    command = [sys.executable, "-c", BEGIN + dedent(code)]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize(
    "use",
    [
        "assert library.double(4) == 8",
        "assert library.numbers[1] == 2",
        "assert library.heavy.deep.double(1) == 2",
        "import library.child; assert library.child.Child.__mro__[1] is sys.modules['heavy.deep'].Base",
        "assert library.Base.kind == 'base'",
        "assert {library.Base: 1}[sys.modules['heavy.deep'].Base] == 1",
        "import heavy; assert heavy.double(3) == 6",
        "import heavy.deep; assert heavy.deep.double(3) == 6",
        "import other; assert other.double.__module__ == 'heavy.deep'",
    ],
)
def test_a_heavy_package_is_imported_when_it_is_used(packages: Path, use: str) -> None:
    run(
        packages,
        f"""
        import library
        assert not loaded("heavy") and not loaded("heavy.deep")
        {use}
        assert loaded("heavy") and loaded("heavy.deep")
        """,
    )


def test_nothing_is_an_instance_of_a_class_that_is_not_imported(packages: Path) -> None:
    run(
        packages,
        """
        import library
        assert not library.is_base(1) and library.is_base_or_text("a") and library.is_base_or_none(None)
        assert not loaded("heavy")
        from heavy.deep import Base
        assert library.is_base(Base()) and library.is_base_or_text(Base()) and not library.is_base_or_none(1)
        """,
    )


def test_a_package_imports_all_its_modules_when_a_name_is_missing(packages: Path) -> None:
    run(
        packages,
        """
        from library.parts.one import ONE
        assert ONE == 1 and "library.parts.two" not in sys.modules
        from library.parts import TWO
        assert TWO == 2 and "library.parts.two" in sys.modules
        try:
            from library.parts import THREE
        except ImportError:
            print("no three")
        """,
    )


def test_imports_stay_as_they_are_where_the_user_says_so(packages: Path) -> None:
    code = "import os; os.environ['PIPEGRAPH_LEAN_IMPORTS'] = '0'" + BEGIN.replace("== 1", "== 0")
    done = subprocess.run([sys.executable, "-c", code + "import library\nassert loaded('heavy')"], cwd=packages)
    assert done.returncode == 0


COLD = """
import json, sys
from pipegraph import lean_imports
import pipegraph as pg
pg.load(sys.argv[1], out="out").run(**json.loads(sys.argv[2]))
print(*[n for n, m in sys.modules.items() if not isinstance(m, lean_imports._StandIn)])
"""
UNUSED = {"scipy.optimize", "scipy.stats", "sklearn", "peft", "accelerate", "sympy", "torch._dynamo", "torch._inductor"}


@pytest.mark.parametrize(
    "graph, inputs, also",
    [
        ("flux.json", {"steps": 1}, {"diffusers.models.transformers.transformer_wan"}),
        ("video.json", {"steps": 1}, {"diffusers.models.transformers.transformer_flux"}),
        ("chat.json", {"message": "an apple", "model": "embedded/prompt-writer"}, {"diffusers"}),
    ],
)
def test_a_cold_run_imports_nothing_that_it_does_not_use(
    tmp_path: Path, graph: str, inputs: dict[str, object], also: set[str]
) -> None:
    command = [sys.executable, "-c", COLD, graph, json.dumps(inputs)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    imported = set(done.stdout.split())
    assert "torch" in imported and imported & (UNUSED | also) == set()


def test_torch_can_compile_what_was_imported_without_its_compiler() -> None:
    code = """
        import pipegraph.models, torch
        from diffusers.utils.torch_utils import maybe_allow_in_graph
        @maybe_allow_in_graph
        def marked(x):
            return x + 1

        from pipegraph.lean_imports import _StandIn, _allowed_in_graph
        assert isinstance(sys.modules["torch._dynamo"], _StandIn) and marked in _allowed_in_graph
        compiled = torch.compile(lambda x: 2 * marked(x), backend="eager", fullgraph=True)
        assert compiled(torch.ones(2)).tolist() == [4, 4]
        assert not _allowed_in_graph and id(marked) in torch._dynamo.trace_rules._allowed_callable_ids()
        """
    done = subprocess.run([sys.executable, "-c", "import sys\n" + dedent(code)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
