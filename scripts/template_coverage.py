"""How many of ComfyUI's templates can be opened here, and what the others lack.

Takes a folder of files of ComfyUI's editor. With an ``index.json`` beside them, as the package
comfyui-workflow-templates-json has it, templates of paid services are left out, and the report is by category and by
model, and says how much of all recorded use is covered.

pip download --no-deps comfyui-workflow-templates-json && unzip comfyui_workflow_templates_json-*.whl
scripts/template_coverage comfyui_workflow_templates_json/templates --markdown > docs/coverage.md
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pipegraph.graphs.editor.naming import named
from pipegraph.graphs.errors import GraphError, Problem
from pipegraph.graphs.load import load
from pipegraph.runtime.catalog import Catalog
from pipegraph.runtime.check import examine

FILES = ("unknown_file", "absent_file", "damaged_file")
"""Codes of problems with files of models and inputs: not with the graph."""


@dataclass
class Template:
    """What became of one file."""

    name: str
    category: str = ""
    models: tuple[str, ...] = ()
    usage: int = 0
    read: bool = False
    counts: Mapping[str, int] = field(default_factory=dict)
    problems: tuple[Problem, ...] = ()
    notes: int = 0

    @property
    def types(self) -> list[str]:
        """Types of nodes that it lacks."""
        return sorted({p.got for p in self.problems if p.code == "unknown_node"})

    @property
    def others(self) -> list[str]:
        """What else is wrong with the graph."""
        listed = [p for p in self.problems if p.code != "unknown_node" and p.code not in FILES]
        return sorted({f"{p.input or p.node} {p.got}: {p.code}".strip() for p in listed})

    @property
    def valid(self) -> bool:
        """Whether only files are missing."""
        return not self.types and not self.others


def templates(folder: Path) -> list[Template]:
    """The files of a folder, without those that the index marks as not open source."""
    index = folder / "index.json"
    facts: dict[str, dict[str, Any]] = {}
    if index.is_file():
        for group in json.loads(index.read_text("utf-8")):
            for entry in group["templates"]:
                facts[entry["name"]] = {**entry, "category": group["title"]}
        names = [name for name, entry in facts.items() if entry.get("openSource") is not False]
    else:
        names = [path.stem for path in folder.glob("*.json")]
    listed = []
    for name in sorted(names):
        entry = facts.get(name, {})
        models = tuple(entry.get("models") or ())
        listed.append(Template(name, entry.get("category", ""), models, int(entry.get("usage") or 0)))
    return listed


def examined(template: Template, path: Path, catalog: Catalog) -> None:
    """Read, flatten and check one file."""
    try:
        graph = named(load(path, partial=True), catalog.slots)
        template.read = True
        template.counts = graph.editor.counts if graph.editor else {}
        template.notes = len(examine(graph, catalog).notes)
    except GraphError as error:
        template.problems = error.problems


def greedy(listed: Iterable[Template]) -> Iterator[tuple[str, int, int]]:
    """Types in the order that completes templates soonest: (type, templates that are whole with it, their usage)."""
    lacking = {t.name: set(t.types) for t in listed}
    usage = {t.name: t.usage for t in listed}
    whole = [name for name, types in lacking.items() if not types]
    lacking = {name: types for name, types in lacking.items() if types}
    while lacking:
        first = min(lacking, key=lambda name: (len(lacking[name]), -usage[name], name))
        for type in sorted(lacking[first]):
            for types in lacking.values():
                types.discard(type)
            whole += [name for name, types in lacking.items() if not types]
            lacking = {name: types for name, types in lacking.items() if types}
            yield type, len(whole), sum(usage[name] for name in whole)


def table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> Iterator[str]:
    yield "| " + " | ".join(head) + " |"
    yield "|" + " --- |" * len(head)
    for row in rows:
        yield "| " + " | ".join(str(cell).replace("|", "\\|") for cell in row) + " |"
    yield ""


def report(listed: Sequence[Template], seconds: float, source: str) -> Iterator[str]:
    """The page."""
    total, used = len(listed), sum(t.usage for t in listed) or 1
    counts: Counter[str] = Counter()
    for template in listed:
        counts.update(template.counts)
    valid = [t for t in listed if t.valid]
    share = 100 * sum(t.usage for t in valid) / used
    yield "# ComfyUI's templates\n"
    yield f"{time.strftime('%Y-%m-%d', time.gmtime())}, {source}; written by `scripts/template_coverage`."
    yield "Templates of paid services are left out. Usage is the number that the package's index gives for each.\n"
    yield "| | |\n| --- | --- |"
    yield f"| templates | {total} |"
    yield f"| read and flattened | {sum(t.read for t in listed)} |"
    yield f"| **valid apart from missing files** | **{len(valid)}** ({share:.0f} % of usage) |"
    yield f"| CPU time for all, without the start | {seconds:.1f} s |\n"
    yield "What the files hold, and what became of it:\n"
    c = counts
    names = "nodes: kept, notes, only the editor's, subgraphs, bypassed, muted"
    nodes = [c[k] for k in ("nodes kept", "notes", "editor only", "subgraphs", "bypassed", "muted")]
    yield from table(
        ["", "in the files", "became"],
        [
            [names, c["nodes"], " + ".join(map(str, nodes))],
            [
                "links: kept, values of primitives and subgraphs, from muted or bypassed nodes, broken",
                c["links"],
                " + ".join(str(c[k]) for k in ("links kept", "links to values", "links dropped", "links broken")),
            ],
            [
                "values: named, of the form only (seed control, buttons), of types that are not known",
                c["values"],
                " + ".join(str(c[k]) for k in ("values named", "values of the form", "values without a name")),
            ],
        ],
    )
    yield "## By category\n"
    yield from table(["category", "templates", "valid", "usage"], groups(listed, lambda t: [t.category], used))
    yield "## By model\n"
    yield from table(["model", "templates", "valid", "usage"], groups(listed, lambda t: t.models or ("?",), used))
    yield "## Types that are missing\n"
    yield "In the order that completes templates soonest; other faults of the graphs are not counted.\n"
    rows = [[f"`{type}`", n, f"{100 * usage / used:.0f} %"] for type, n, usage in greedy(listed)]
    yield from table(["type", "templates whole", "of usage"], rows)
    yield "## What each template lacks\n"
    rest = sorted((t for t in listed if not t.valid), key=lambda t: (-t.usage, t.name))
    yield from table(
        ["template", "usage", "types", "other faults"],
        [[t.name, t.usage, ", ".join(f"`{x}`" for x in t.types), "; ".join(t.others)] for t in rest],
    )


def groups(listed: Iterable[Template], keys: Any, used: int) -> list[list[object]]:
    """(group, templates, valid ones, share of usage), most used first."""
    members: dict[str, list[Template]] = defaultdict(list)
    for template in listed:
        for key in keys(template):
            members[key].append(template)
    rows = []
    for key, inside in sorted(members.items(), key=lambda item: -sum(t.usage for t in item[1])):
        share = 100 * sum(t.usage for t in inside) / used
        rows.append([key, len(inside), sum(t.valid for t in inside), f"{share:.1f} %"])
    return rows


def main(args: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="templates, with or without an index.json")
    parser.add_argument("--source", default="", help="which package and version they are of, for the page")
    parser.add_argument("--markdown", action="store_true", help="print the whole page, not the counts alone")
    parser.add_argument("--problems", metavar="NAME", help="print every problem of one template")
    options = parser.parse_args(args)
    listed = templates(options.folder)
    catalog = Catalog.load()
    start = time.process_time()
    for template in listed:
        examined(template, options.folder / f"{template.name}.json", catalog)
    seconds = time.process_time() - start
    if options.problems:
        for template in listed:
            if template.name == options.problems:
                print(*template.problems, sep="\n")
        return 0
    page = "\n".join(report(listed, seconds, options.source or options.folder.name))
    print(page if options.markdown else page.split("## By category")[0].rstrip())
    unread = [t.name for t in listed if not t.read]
    if unread:
        print("not read: " + ", ".join(unread), file=sys.stderr)
    return 1 if unread else 0


if __name__ == "__main__":
    sys.exit(main())
