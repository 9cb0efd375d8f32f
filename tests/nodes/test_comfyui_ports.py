"""Inputs and outputs as ComfyUI's nodes have them today, and graphs with the older ones."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import pipegraph as pg


def graph(kind: str, inputs: dict[str, Any], **more: Any) -> pg.Workflow:
    """A video of four gray frames, and what is done with it; in ComfyUI's API form."""
    nodes = {
        "1": {"class_type": "EmptyImage", "inputs": {"width": 32, "height": 32, "batch_size": 4, "color": 8421504}},
        "2": {"class_type": "CreateVideo", "inputs": {"images": ["1", 0], "fps": 8, **more.pop("video", {})}},
        "3": {"class_type": kind, "inputs": {"video": ["2", 0], **inputs}},
    }
    return pg.load(nodes, **more)


def saved(tmp_path: Path, inputs: dict[str, Any], video: dict[str, Any] | None = None) -> tuple[str, str]:
    """Ending and codec of the file."""
    import av

    result = graph("SaveVideo", {"filename_prefix": "v", **inputs}, video=video or {}, out=tmp_path).run()
    [file] = result.files
    with av.open(str(file)) as container:
        return file.suffix, container.streams.video[0].codec_context.name


def decoded(file: Path) -> list[bytes]:
    """The packets of the video stream: without the metadata, which holds the graph."""
    import av

    with av.open(str(file)) as container:
        return [bytes(packet) for packet in container.demux(video=0)]


@pytest.mark.parametrize(
    ("inputs", "ending", "codec"),
    [
        ({"format": "auto", "format.codec": "auto"}, ".mp4", "h264"),
        ({"format": "mkv", "format.codec": "h264"}, ".mkv", "h264"),
        ({"format": "auto", "format.codec": "av1"}, ".webm", "libdav1d"),
        ({"format": "mp4", "codec": "h264"}, ".mp4", "h264"),  # as graphs of 2025 have it
        ({"format": "mkv", "codec": "ffv1"}, ".mkv", "ffv1"),
        ({"format": "mkv", "format.codec": "h264", "codec": "ffv1"}, ".mkv", "h264"),  # the new name wins
    ],
)
def test_codecs_of_save_video(tmp_path: Path, inputs: dict[str, Any], ending: str, codec: str) -> None:
    assert saved(tmp_path, inputs) == (ending, codec)


def test_the_codec_of_create_video_counts_where_save_video_leaves_it_open(tmp_path: Path) -> None:
    assert saved(tmp_path, {"format": "mkv"}, {"codec": "h264"})[1] == "h264"
    assert saved(tmp_path, {"format": "mkv", "format.codec": "ffv1"}, {"codec": "h264"})[1] == "ffv1"
    assert saved(tmp_path, {"format": "mkv"})[1] == "ffv1"


def test_crf_of_an_encoding(tmp_path: Path) -> None:
    sizes = []
    for crf in (1.0, 51.0):
        encoding = {"format.codec.encoding": "re-encode", "format.codec.encoding.crf": crf}
        inputs = {"filename_prefix": f"v{crf:g}", "format": "mp4", "format.codec": "h264", **encoding}
        [file] = graph("SaveVideo", inputs, out=tmp_path).run().files
        sizes.append(file.read_bytes())
    assert sizes[0] != sizes[1]
    usual = {"format": "mp4", "format.codec": "h264", "format.codec.encoding": "re-encode"}
    files = [
        graph("SaveVideo", {"filename_prefix": "same", **usual, **crf}, out=tmp_path / name).run().files[0]
        for name, crf in (("a", {}), ("b", {"format.codec.encoding.crf": 23.0}))
    ]
    assert decoded(files[0]) == decoded(files[1])
    with pytest.raises(pg.GraphError, match="crf of h264 is at most 51"):
        inputs = {"format": "mp4", "format.codec": "h264", "format.codec.encoding": "re-encode"}
        graph("SaveVideo", {**inputs, "format.codec.encoding.crf": 60.0}).check()


def test_the_call_sets_an_input_by_its_older_name(tmp_path: Path) -> None:
    workflow = graph("SaveVideo", {"format": "mkv", "format.codec": "h264"}, out=tmp_path)
    checked = workflow.check({"3.codec": "ffv1"})
    assert checked.nodes["3"].values["format.codec"] == "ffv1"


def test_what_videos_cannot_hold_is_said_before() -> None:
    for video, message in (({"bit_depth": 10}, "8 bits a channel"), ({"color_space": "HDR PQ"}, "not HDR")):
        with pytest.raises(pg.GraphError, match=message):
            graph("SaveVideo", {}, video=video).check()


def test_get_video_components_has_five_outputs() -> None:
    parts = {"images": ["3", 0], "fps": ["3", 2], "bit_depth": ["3", 3], "color_space": ["3", 4]}
    document = {
        "1": {"class_type": "EmptyImage", "inputs": {"width": 32, "height": 32, "batch_size": 4}},
        "2": {"class_type": "CreateVideo", "inputs": {"images": ["1", 0], "fps": 8}},
        "3": {"class_type": "GetVideoComponents", "inputs": {"video": ["2", 0]}},
        "4": {"class_type": "CreateVideo", "inputs": parts},
    }
    outputs = {"depth": ["3", 3], "space": ["3", 4], "video": ["4", 0]}
    result = pg.load({"pipegraph": 1, "nodes": document, "outputs": outputs}).run()
    assert (result["depth"], result["space"]) == (8, "sRGB") and result["video"].fps == 8


def test_a_link_into_an_input_that_a_node_lacks_is_an_error() -> None:
    """A value that an extension left behind is a note; what comes over a link would be lost."""
    checked = graph("SaveVideo", {"video-preview": ""}).check()
    assert [note.input for note in checked.notes] == ["video-preview"]
    with pytest.raises(pg.GraphError) as caught:
        graph("SaveVideo", {"mask": ["1", 0]}).check()
    assert [(p.code, p.node, p.input) for p in caught.value.problems] == [("unknown_input", "3", "mask")]


def value(kind: str, **inputs: Any) -> Any:
    """The first output of one node."""
    nodes = {
        "batch": {"class_type": "EmptyImage", "inputs": {"width": 16, "height": 16, "batch_size": 5}},
        "one": {"class_type": "PrimitiveInt", "inputs": {"value": 1}},
        "node": {"class_type": kind, "inputs": inputs},
    }
    return pg.load({"pipegraph": 1, "nodes": nodes, "outputs": {"out": ["node", 0]}}).run()["out"]


@pytest.mark.parametrize(("index", "length", "count"), [(-1, 3, 1), (-2, 3, 2), (-99, 2, 2), (1, 2, 2), (99, 2, 1)])
def test_negative_indices_of_a_batch(index: int, length: int, count: int) -> None:
    assert len(value("ImageFromBatch", image=["batch", 0], batch_index=index, length=length)) == count


@pytest.mark.parametrize(
    ("expression", "result"),
    [("13 & -8", 8), ("13 & ~1", 12), ("5 | 2", 7), ("6 ^ 3", 5), ("1 << 10", 1024), ("1024 >> 3", 128)],
)
def test_bit_operators(expression: str, result: int) -> None:
    assert value("ComfyMathExpression", expression=expression) == result


def test_bits_that_are_too_many() -> None:
    with pytest.raises(pg.PipegraphError, match="is too large"):
        value("ComfyMathExpression", expression="1 << 99999999999")


def test_a_switch_with_one_branch() -> None:
    assert value("ComfySwitchNode", switch=True, on_false=["one", 0]) == 1
    assert value("ComfySwitchNode", switch=False, on_false=["one", 0]) == 1
    with pytest.raises(pg.RunError, match="neither on_true nor on_false"):
        value("ComfySwitchNode", switch=False)
