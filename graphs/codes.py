"""Codes of problems, their meaning and fixes: ``pipegraph explain`` and docs/errors.md."""

from __future__ import annotations

from typing import Final, NamedTuple


class Code(NamedTuple):
    """One kind of fault."""

    stage: str
    """When it is noticed."""
    meaning: str
    mend: str
    """How to fix it."""


READING: Final = "Reading the file"
CHECKING: Final = "Comparing the graph with the nodes and the call"
NOTES: Final = "Notes on files of ComfyUI; the graph runs"
MODELS: Final = "Comparing it with the models, from the headers of their files, and with the machine"
RUNNING: Final = "Running (exit code 1)"
CALLING: Final = "Calling pipegraph"


def _codes(stage: str, **texts: tuple[str, str]) -> dict[str, Code]:
    return {code: Code(stage, meaning, mend) for code, (meaning, mend) in texts.items()}


CODES: Final[dict[str, Code]] = {
    **_codes(
        READING,
        file_not_found=(
            "There is no such file or ready-made graph, or it cannot be read.",
            "Compare the path; `pipegraph graphs` lists the ready-made graphs.",
        ),
        too_large=(
            "The file is larger than 64 MiB, or has more than 20,000 nodes, those of subgraphs counted at each use.",
            "Graphs are small: is it another kind of file?",
        ),
        bad_text=("The file is not UTF-8, or holds half of a surrogate pair.", "Save it as UTF-8 in an editor."),
        invalid_json=(
            "The text is no JSON: a comma, quote or bracket too few or too many.",
            "Mend the line and column that the message names.",
        ),
        duplicate_key=("A key is given twice in one object.", "Leave one of them out, or rename it."),
        not_finite=("`NaN` or `Infinity` stands in the file.", "Write a number."),
        number_too_large=(
            "A number that no float can hold, or a whole number of more than 4,000 digits.",
            "Write a smaller number.",
        ),
        too_deep=(
            "Objects and lists are nested deeper than 64 levels.",
            "Graphs are flat: is it another kind of file?",
        ),
        unknown_form=(
            "The JSON is no graph: neither pipegraph's form nor one of ComfyUI's.",
            'A graph has `"pipegraph": 1` and `"nodes"`; see docs/graph-format.md.',
        ),
        unknown_version=('`"pipegraph"` is not `1`.', "Write 1, or use the pipegraph that the file was written for."),
        no_graph_in_picture=(
            "The image or video holds no graph.",
            "Only files that pipegraph or ComfyUI saved hold one, and web pages and messengers strip it.",
        ),
        bad_graph=(
            "A part has the wrong shape: a node without `class_type`, inputs that are no object, ...",
            "Give the part the shape that the message names; docs/graph-format.md shows all of them.",
        ),
        unknown_key=(
            "A key that means nothing there (native form only).",
            "Correct its spelling, or move it to `meta`.",
        ),
        bad_link=(
            "A bare list that is no link; in a file of ComfyUI's editor, a link that leads from nowhere.",
            'A link is `["node id", output]`; a list as a value is `{"__value__": [...]}`.',
        ),
        bad_value=(
            "A value that the input cannot take: no JSON (from Python), or one that the node refuses.",
            "The message says what the node wants.",
        ),
        broken_node=(
            "A function of the node's declaration (values, files, check, size, recommend) raised.",
            "It is a fault of the node: the hint names its line. Tell its author.",
        ),
        ambiguous_id=(
            'Two ids are equal, or differ only by type, `1` and `"1"` (from Python).',
            "Give each node an id of its own, as text.",
        ),
        recursive_subgraph=("A subgraph contains itself.", "Take the inner one out in ComfyUI's editor."),
        unknown_subgraph=(
            "A node stands for a subgraph that the file does not hold.",
            "Save the file again where the subgraph is known.",
        ),
        unnamed_values=(
            "Values that stand by position fit the inputs of the node in no way that is certain.",
            "Another version of the node wrote the file: open and save it in today's editor, or set the inputs.",
        ),
    ),
    **_codes(
        CHECKING,
        unknown_node=(
            "No node has this name.",
            "Correct its spelling; `pipegraph nodes WORD` searches. Nodes of your own are loaded by `--nodes PATH`.",
        ),
        unknown_input=("The node has no such input.", "`pipegraph nodes NAME` lists its inputs."),
        unused_input=(
            "The input counts only with another value of the input before its dot.",
            "Leave it out, or change the value of that input.",
        ),
        missing_input=("An input without default is left out.", "Connect it or give it a value."),
        unknown_source=("A link to a node that does not exist.", "Correct the id, or add the node."),
        unknown_output=("A link to an output that does not exist.", "`pipegraph nodes NAME` lists the outputs."),
        wrong_type=("A value or a link of the wrong type.", "Connect an output of the wanted type, or convert it."),
        out_of_range=(
            "A number beyond the limits of the input, or an end before its start.",
            "Give a number within the range that the message names.",
        ),
        not_in_list=("A name that is not among the choices.", "Take one of the choices."),
        unknown_file=(
            "A file or model that is not found.",
            "Put it into one of the folders that the message names; `pipegraph models` lists what is there.",
        ),
        unknown_network=(
            "A model file is there, and holds no network that pipegraph knows.",
            "Take a file of a family that is supported; docs/models.md lists them.",
        ),
        damaged_file=(
            "A model file is there and cannot be read: it is cut off, or its header is broken.",
            "Fetch it again; compare its size and hash with those of its source.",
        ),
        unusable_file=(
            "A file that by its header is no image, video or sound, is cut off, or is too large for the memory.",
            "Take another file, or a smaller one.",
        ),
        bad_file_name=(
            "A text from which no name of a file inside the output folder can be made.",
            "Leave out `..`, drive letters and characters that file names cannot have.",
        ),
        cycle=("Nodes feed each other; the ring is printed.", "Cut one of the links of the ring."),
        no_outputs=("Nothing in the graph gives anything back.", "Add a node that saves or shows, or name `outputs`."),
        unknown_graph_input=('`{"$input": ...}` names no input of the graph.', "Add it to `inputs` of the graph."),
        unused_graph_input=(
            "No node reads an input of the graph.",
            'Connect it as `{"$input": name}`, or leave it out.',
        ),
        missing_graph_input=("An input of the graph without default is not given.", "Give it: `--name VALUE`."),
        unknown_run_input=(
            "A value is given for an input that the graph does not have.",
            "`pipegraph run FILE --help` lists its inputs.",
        ),
        output_saves=(
            "A run is to save nothing (`save=False` in Python), and an output of the graph needs a node that saves.",
            "Leave `save=False` out, or take an output that needs no saving node.",
        ),
        unknown_override=("`--set NODE.INPUT=VALUE` names no node of the graph.", "Correct the id of the node."),
    ),
    **_codes(
        NOTES,
        idle_node=(
            "Nothing that is saved or shown needs the node; it was left out, unchecked.",
            "Connect it to a node that saves or shows, or delete it.",
        ),
        dynamic_prompt=(
            "A prompt holds `{a|b}` or a comment, which ComfyUI's editor replaces before it sends the prompt.",
            "Write the words that you want; here a prompt is read as it is.",
        ),
        two_values=(
            "The file has one value by name and another by position; that by position counts, as in ComfyUI's editor.",
            "Open and save the file in ComfyUI's editor.",
        ),
        default_counts=(
            "The node has inputs that are newer than the file; their defaults count.",
            "Set them if you want other values.",
        ),
    ),
    **_codes(
        MODELS,
        wrong_model=(
            "A node cannot work on its model: a LoRA of another family, more steps than the model has noise levels.",
            "Take a file that fits the model.",
        ),
        no_memory=("What a node makes takes more memory than the machine has.", "Make it smaller or shorter."),
        unable_model=(
            "The model that feeds a node cannot use an input that is linked.",
            "Cut the link, or load a model that can.",
        ),
        no_recommendation=(
            "Nothing says what `auto` should be, or the model's files cannot be read for it.",
            "Write the value instead of `auto`.",
        ),
        conflicting_recommendations=(
            "The models of the graph recommend different values.",
            "Write the value instead of `auto`.",
        ),
        bad_recommendation=("The recommendation does not fit the input.", "Write the value instead of `auto`."),
        unreadable_file=(
            "A file that a node reads cannot be opened.",
            "Look at its permissions, and whether it is there.",
        ),
    ),
    **_codes(
        RUNNING,
        node_failed=(
            "A node raised; the message is what it raised, `got` its inputs.",
            "Read the message. `--verbose` shows where in the code it was.",
        ),
        changed_input=(
            "A node wrote into a value it was given; other nodes and later runs get the same value.",
            "It is a fault of the node: it should work on a copy.",
        ),
    ),
    **_codes(
        CALLING,
        usage=("The command line cannot be understood.", "`pipegraph COMMAND --help` shows what it takes."),
        broken_nodes=("A file of nodes that was named does not load.", "The message is the error in that file."),
        bad_declaration=("A node is declared wrongly.", "The message names the line and what it should be."),
        bad_picture=(
            "An image in memory (PIL, numpy, tensor) cannot be an input.",
            "Give uint8, uint16 or floating point from 0 to 1, channels last.",
        ),
        bad_device=(
            "The device is not there.",
            "Take `auto`, `cpu` or `cuda:0`; `pipegraph doctor` shows what is there.",
        ),
        bad_dtype=("There is no such dtype.", "Take `auto`, `fp32`, `fp16` or `bf16`."),
        bad_quantize=("Weights cannot be quantized so.", "Take `none`, `q8`, `fp8` or `w4`."),
        bad_kernels=(
            "There is no such kernel or back end here.",
            "`pipegraph kernels` lists them, and why each is or is not used.",
        ),
        bad_out=("The output folder cannot be written.", "Name another by `--out`, or change its permissions."),
        bad_cache_memory=("`PIPEGRAPH_CACHE_MEMORY` is no size.", "Write a number of bytes like `512M` or `1.5GiB`."),
        bad_parallel=("The run cannot be shared among so many processes.", "The message says what the model needs."),
        no_model=(
            "`pipegraph chat` has no model that chats, or several; or the one that was named cannot.",
            "Name one by `--model`, or fetch one: `pipegraph models add smollm2`.",
        ),
        no_text=("Standard input is no UTF-8 text.", "Pipe in UTF-8."),
        bad_message=("The chat cannot be told to the model.", "The message says what its template wants."),
        crashed=(
            "A process of a parallel run ended by itself.",
            "Its output says why; a lack of memory ends it without a word.",
        ),
    ),
}
"""By code; the order is that of the page."""
