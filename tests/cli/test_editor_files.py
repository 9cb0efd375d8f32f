"""Files of ComfyUI's editor on the command line: options for what they promote, nodes by their titles."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pipegraph.cli import main

from ..graphs.editor_files import file, node, subgraph

DRAW = subgraph(
    "inner",
    [node(8, "EmptyImage", ["width INT * 1"], ["IMAGE"], title="Canvas", widgets_values=[64, 32, 1, 0])],
    ["1 -10 0 8 0 INT", "4 8 0 -20 0 IMAGE"],
    ["width INT 1"],
    ["IMAGE IMAGE 4"],
    name="Draw",
)
PROMOTING = file(
    [node(57, "inner", [], ["IMAGE"]), node(9, "SaveImage", ["images IMAGE 9"], widgets_values=["a"])],
    ["9 57 0 9 0 IMAGE"],
    subgraphs=[DRAW],
)
PLAIN = file(
    [
        node(1, "EmptyImage", [], ["IMAGE"], title="Canvas", widgets_values=[64, 32, 1, 0]),
        node(2, "ImageInvert", ["image IMAGE 1"], ["IMAGE"]),
        node(3, "SaveImage", ["images IMAGE 2"], title="Keep", widgets_values=["a"]),
        node(4, "SaveImage", ["images IMAGE 3"], title="Keep", widgets_values=["b"]),
    ],
    ["1 1 0 2 0 IMAGE", "2 2 0 3 0 IMAGE", "3 1 0 4 0 IMAGE"],
)


def call(*args: str) -> int:
    with pytest.raises(SystemExit) as ended:
        main([*args])
    return int(str(ended.value.code))


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("promoting.json").write_text(json.dumps(PROMOTING))
    Path("plain.json").write_text(json.dumps(PLAIN))


@pytest.mark.usefixtures("files")
class TestFiles:
    def test_promoted_widgets_are_options(self, capsys: pytest.CaptureFixture[str]) -> None:
        assert call("run", "promoting.json", "--help") == 0
        shown = " ".join(capsys.readouterr().out.split())
        assert "--width INT width of Draw [default: 64]" in shown
        assert call("validate", "promoting.json", "--width", "128") == 0
        assert call("validate", "promoting.json", "--width", "none") == 2
        assert "width" in capsys.readouterr().err

    def test_without_them_help_lists_the_nodes(self, capsys: pytest.CaptureFixture[str]) -> None:
        assert call("run", "plain.json", "--help") == 0
        shown = " ".join(capsys.readouterr().out.split())
        assert "1 Canvas (EmptyImage): width, height, batch_size, color" in shown
        assert "4 Keep (SaveImage): filename_prefix" in shown and "ImageInvert" not in shown

    @pytest.mark.parametrize(
        ("setting", "message"),
        [
            ("Canvas.width=0", 'node "1" (Canvas), input "width": out of range'),
            ("Empty Image.width=1", 'no node of the graph is meant by "Empty Image.width"'),
            ("Keep.filename_prefix=c", '2 nodes are called "Keep"'),
            ("Canvas.widht=8", 'EmptyImage has no input "widht"'),
            ("Canvs.width=8", 'Did you mean "Canvas"?'),
        ],
    )
    def test_what_a_title_means(self, setting: str, message: str, capsys: pytest.CaptureFixture[str]) -> None:
        assert call("validate", "plain.json", "--set", setting) == 2
        assert message in capsys.readouterr().err

    @pytest.mark.parametrize("setting", ["Canvas.width=8", "1.width=8", "ImageInvert.image=x"])
    def test_a_title_or_an_id_names_the_node(self, setting: str, capsys: pytest.CaptureFixture[str]) -> None:
        code = call("validate", "plain.json", "--set", setting)
        assert code == (2 if "Invert" in setting else 0)
        assert "unknown_override" not in capsys.readouterr().err
