"""Facts of the loaded models: values for ``auto``, and nodes that do not fit their model or the memory."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping, Sequence, Set
from typing import Any

from pipegraph.graphs.errors import Problem, shown
from pipegraph.memory import show_size, total_memory

from .checked import CheckedNode, Resolved
from .errors import declaration_fault
from .spec import Port
from .values import Misfit, fit

Facts = Mapping[str, Mapping[str, Any]]
"""Facts of models by the id of their loader."""


def settle(nodes: Sequence[CheckedNode]) -> tuple[dict[str, list[Resolved]], list[Problem]]:
    """Resolve each ``auto``, and check nodes against their models and the memory of this machine.

    Args:
        nodes: Nodes that may run, in topological order.

    Returns:
        Resolved values by node id, and the problems.
    """
    problems: list[Problem] = []
    facts = {node.id: recommended(node, problems) for node in nodes if node.entry.spec.recommend}
    asking = [(node, asked) for node in nodes if (asked := _asked(node))]
    needing = [(node, ports) for node in nodes if (ports := _needing(node))]
    if asking or needing:
        autos, wrong = _resolve(nodes, facts, asking, needing)
        problems += wrong
    else:
        autos, problems = {}, []  # loading reports a model that cannot be read
    models = _models(nodes, facts) if facts else {}
    for node in nodes:
        if node.entry.spec.size or node.entry.spec.check_model:
            values = {**node.values, **{r.input: r.value for r in autos.get(node.id, ())}}
            problems += _misfits(node, values, models)
    return autos, problems


def _resolve(
    nodes: Sequence[CheckedNode],
    facts: Facts,
    asking: Sequence[tuple[CheckedNode, Mapping[str, str]]],
    needing: Sequence[tuple[CheckedNode, Sequence[Port]]],
) -> tuple[dict[str, list[Resolved]], list[Problem]]:
    """Resolve each ``auto`` from the loaders of its node (:func:`_offered`)."""
    problems: list[Problem] = []
    upstream, readers = _upstream(nodes, facts), _readers(nodes)
    for node, ports in needing:
        for port in ports:
            _check_able(node, port, {id: facts[id] for id in facts if id in upstream[node.id]}, problems)
    resolved: dict[str, list[Resolved]] = {}
    for node, asked in asking:
        for name, key in asked.items():
            recommending = {id: values[key] for id, values in facts.items() if key in values}
            offers = _offered(node, recommending, upstream, readers)
            answer = _agreed(node, name, key, offers, facts, problems)
            if answer:
                resolved.setdefault(node.id, []).append(answer)
    return resolved, problems


def _models(nodes: Sequence[CheckedNode], facts: Facts) -> Facts:
    """Facts of the model of each node with a MODEL output: its loader's facts, with the changes of later nodes."""
    models: dict[str, Mapping[str, Any]] = {}
    for node in nodes:
        if "MODEL" not in node.entry.output_types:
            continue
        spec = node.entry.spec
        sources = [source for name, source, _ in node.links if spec.inputs[name].type == "MODEL"]
        if node.id in facts:
            models[node.id] = facts[node.id]
        elif len(sources) == 1 and sources[0] in models:
            models[node.id] = {**models[sources[0]], **spec.changes}
    return models


def _misfits(node: CheckedNode, values: Mapping[str, Any], models: Facts) -> list[Problem]:
    """Problems of a node with its model or the memory of this machine."""
    try:
        return [*_asked_misfits(node, values, models)]
    except Exception as error:
        fault = declaration_fault("check of size or model", error)
        return [Problem(code="broken_node", node=node.id, title=node.title, **fault)]


def _asked_misfits(node: CheckedNode, values: Mapping[str, Any], models: Facts) -> Iterator[Problem]:
    spec = node.entry.spec
    where: dict[str, Any] = {"node": node.id, "title": node.title}
    if spec.size and (size := spec.size(values)) > (available := total_memory()):
        message = f"its output takes {show_size(size)} of memory, this machine has {show_size(available)}"
        yield Problem(code="no_memory", message=message, hint="Give a smaller size or batch.", **where)
    if spec.check_model:
        ports = spec.inputs
        for source in (source for name, source, _ in node.links if ports[name].type == "MODEL"):
            for name, message in spec.check_model(values, models.get(source, {})):
                yield Problem(code="wrong_model", message=message, input=name, got=shown(values.get(name)), **where)


def _asked(node: CheckedNode) -> dict[str, str]:
    """Input -> key of inputs that are ``auto``."""
    ports = node.entry.spec.inputs
    return {
        name: key
        for name, value in node.values.items()
        if value == "auto" and type(value) is str and (key := ports[name].auto)
    }


def _needing(node: CheckedNode) -> list[Port]:
    """Linked inputs that need an ability of the model."""
    ports = node.entry.spec.inputs
    return [ports[name] for name, _, _ in node.links if ports[name].needs]


def _check_able(node: CheckedNode, port: Port, facts: Mapping[str, Mapping[str, Any]], problems: list[Problem]) -> None:
    """Add a problem if no model of a node has the ability that an input needs, as far as known."""
    assert port.needs
    ability = port.needs.ability
    unable = [id for id, known in facts.items() if known.get(ability) is False]
    if unable and not any(known.get(ability) for known in facts.values()):
        model = ", ".join(f'"{id}"' for id in unable)
        message = f"the model of {model} {port.needs.lacking}"
        problems.append(Problem(code="unable_model", message=message, node=node.id, title=node.title, input=port.name))


def recommended(node: CheckedNode, problems: list[Problem]) -> Mapping[str, Any]:
    """Call a loader's ``recommend`` with the inputs that its parameters name."""
    recommend = node.entry.spec.recommend
    assert recommend
    parameters = inspect.signature(recommend).parameters.values()
    arguments = dict(node.values)
    if not any(p.kind is p.VAR_KEYWORD for p in parameters):
        arguments = {p.name: arguments[p.name] for p in parameters if p.name in arguments}
    if any(p.default is p.empty and p.kind is not p.VAR_KEYWORD and p.name not in arguments for p in parameters):
        return {}  # the name of the model comes over a link and is not known yet
    try:
        return recommend(**arguments)
    except (LookupError, OSError, ValueError) as e:
        message = f"its model's recommendations cannot be read: {e}"
        problems.append(Problem(code="no_recommendation", message=message, node=node.id, title=node.title))
    except Exception as e:
        fault = declaration_fault("recommend", e)
        problems.append(Problem(code="broken_node", node=node.id, title=node.title, **fault))
    return {}


def _upstream(nodes: Sequence[CheckedNode], loaders: Mapping[str, Any]) -> dict[str, frozenset[str]]:
    """Loaders upstream of each node."""
    upstream: dict[str, frozenset[str]] = {}
    for node in nodes:
        sets = {upstream[source] for _, source, _ in node.links}
        own = frozenset([node.id]) if node.id in loaders else frozenset()
        upstream[node.id] = own.union(*sets) if own or len(sets) > 1 else next(iter(sets), own)
    return upstream


def _readers(nodes: Sequence[CheckedNode]) -> dict[str, list[str]]:
    """Nodes that read from each node."""
    readers: dict[str, list[str]] = {node.id: [] for node in nodes}
    for node in nodes:
        for _, source, _ in node.links:
            readers[source].append(node.id)
    return readers


def _offered(
    node: CheckedNode,
    facts: Mapping[str, Any],
    upstream: Mapping[str, frozenset[str]],
    readers: Mapping[str, Sequence[str]],
) -> Mapping[str, Any]:
    """Recommendations for a node: from loaders it reads directly, else its model's, else all upstream.

    For a node without any, such as an empty latent, the loaders upstream of its nearest readers are used, and if there
    are none, all loaders of the graph.
    """

    def of(ids: Set[str]) -> dict[str, Any]:
        return {id: value for id, value in facts.items() if id in ids}

    ports = node.entry.spec.inputs
    model = {source for name, source, _ in node.links if name in ports and ports[name].type == "MODEL"}
    of_model = frozenset[str]().union(*(upstream[id] for id in model))
    if loaders := of({source for _, source, _ in node.links}) or of(of_model) or of(upstream[node.id]):
        return loaders
    visited = layer = {node.id}
    while layer := {reader for id in layer for reader in readers[id]} - visited:
        if loaders := of(frozenset().union(*(upstream[id] for id in layer))):
            return loaders
        visited = visited | layer
    return facts


def _agreed(
    node: CheckedNode,
    name: str,
    key: str,
    offers: Mapping[str, Any],
    loaders: Mapping[str, Any],
    problems: list[Problem],
) -> Resolved | None:
    port = node.entry.spec.inputs[name]
    values = [*offers.values()]

    def bad(code: str, message: str, hint: str, got: str = "", wanted: str = "") -> None:
        problems.append(
            Problem(
                code=code,
                message=message,
                node=node.id,
                title=node.title,
                input=name,
                got=got,
                wanted=wanted,
                hint=hint,
            )
        )

    if not values:
        if not port.required and port.default is not None and port.default != "auto":
            return Resolved(node.id, name, key, port.default, "default")
        why = "no model in the graph recommends one" if loaders else "the graph loads no model that could recommend one"
        bad("no_recommendation", f'"auto" has no value for {key}: {why}', "Give a value.")
        return None
    if any(value != values[0] for value in values):
        listed = ", ".join(f'"{id}": {shown(value)}' for id, value in offers.items())
        bad("conflicting_recommendations", f"the models recommend different values for {key}", "Give a value.", listed)
        return None
    try:
        value = fit(port, values[0], port.choices if isinstance(port.choices, tuple) else None)
    except Misfit as e:
        bad("bad_recommendation", f"the model's recommendation for {key} does not fit", "", shown(values[0]), e.wanted)
        return None
    return Resolved(node.id, name, key, value, next(iter(offers)))
