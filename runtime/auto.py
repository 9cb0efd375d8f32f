"""What the loaders of a graph tell of their models: a value for each ``auto``, and what does not fit together."""

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

Told = Mapping[str, Mapping[str, Any]]
"""By the id of a loader, what it tells of its model."""


def settle(nodes: Sequence[CheckedNode]) -> tuple[dict[str, list[Resolved]], list[Problem]]:
    """Find a value for each ``auto``, and what nodes have to say of their models and of the memory they need.

    Args:
        nodes: Those that may run, each after those it reads from.

    Returns:
        By node id what each ``auto`` became, and the problems.
    """
    problems: list[Problem] = []
    told = {node.id: recommended(node, problems) for node in nodes if node.entry.spec.recommend}
    asking = [(node, asked) for node in nodes if (asked := _asked(node))]
    able = [(node, ports) for node in nodes if (ports := _needing(node))]
    if asking or able:
        autos, wrong = _resolve(nodes, told, asking, able)
        problems += wrong
    else:
        autos, problems = {}, []  # loading tells of a model that cannot be read
    models = _models(nodes, told) if told else {}
    for node in nodes:
        if node.entry.spec.size or node.entry.spec.check_model:
            values = {**node.values, **{r.input: r.value for r in autos.get(node.id, ())}}
            problems += _misfits(node, values, models)
    return autos, problems


def _resolve(
    nodes: Sequence[CheckedNode],
    told: Told,
    asking: Sequence[tuple[CheckedNode, Mapping[str, str]]],
    able: Sequence[tuple[CheckedNode, Sequence[Port]]],
) -> tuple[dict[str, list[Resolved]], list[Problem]]:
    """A value for each ``auto`` from the loaders that count for its node (:func:`_offers`), and where there is none."""
    problems: list[Problem] = []
    upstream, readers = _upstream(nodes, told), _readers(nodes)
    for node, ports in able:
        for port in ports:
            _check_able(node, port, {id: told[id] for id in told if id in upstream[node.id]}, problems)
    found: dict[str, list[Resolved]] = {}
    for node, asked in asking:
        for name, key in asked.items():
            able_to_tell = {id: values[key] for id, values in told.items() if key in values}
            offers = _offers(node, able_to_tell, upstream, readers)
            answer = _agreed(node, name, key, offers, told, problems)
            if answer:
                found.setdefault(node.id, []).append(answer)
    return found, problems


def _models(nodes: Sequence[CheckedNode], told: Told) -> Told:
    """By the id of a node that gives a MODEL, what is known of it: its loader's facts, as changed on the way."""
    models: dict[str, Mapping[str, Any]] = {}
    for node in nodes:
        if "MODEL" not in node.entry.output_types:
            continue
        spec = node.entry.spec
        sources = [source for name, source, _ in node.links if spec.inputs[name].type == "MODEL"]
        if node.id in told:
            models[node.id] = told[node.id]
        elif len(sources) == 1 and sources[0] in models:
            models[node.id] = {**models[sources[0]], **spec.changes}
    return models


def _misfits(node: CheckedNode, values: Mapping[str, Any], models: Told) -> list[Problem]:
    """What a node cannot do with its model, or in the memory of this machine."""
    try:
        return [*_asked_misfits(node, values, models)]
    except Exception as error:
        fault = declaration_fault("check of size or model", error)
        return [Problem(code="broken_node", node=node.id, title=node.title, **fault)]


def _asked_misfits(node: CheckedNode, values: Mapping[str, Any], models: Told) -> Iterator[Problem]:
    spec = node.entry.spec
    where = {"node": node.id, "title": node.title}
    if spec.size and (size := spec.size(values)) > (there := total_memory()):
        message = f"what it makes takes {show_size(size)} of memory, and this machine has {show_size(there)}"
        yield Problem(code="no_memory", message=message, hint="Give a smaller size or batch.", **where)
    if spec.check_model:
        ports = spec.inputs
        for source in (source for name, source, _ in node.links if ports[name].type == "MODEL"):
            for name, message in spec.check_model(values, models.get(source, {})):
                yield Problem(code="wrong_model", message=message, input=name, got=shown(values.get(name)), **where)


def _asked(node: CheckedNode) -> dict[str, str]:
    """Input -> key, of the inputs that are ``auto``."""
    ports = node.entry.spec.inputs
    return {
        name: key
        for name, value in node.values.items()
        if value == "auto" and type(value) is str and (key := ports[name].auto)
    }


def _needing(node: CheckedNode) -> list[Port]:
    """Linked inputs that a model must be able to use."""
    ports = node.entry.spec.inputs
    return [ports[name] for name, _, _ in node.links if ports[name].needs]


def _check_able(node: CheckedNode, port: Port, told: Mapping[str, Mapping[str, Any]], problems: list[Problem]) -> None:
    """A problem if no model that feeds a node can do what an input of it needs, as far as loaders tell."""
    assert port.needs
    ability = port.needs.ability
    unable = [id for id, facts in told.items() if facts.get(ability) is False]
    if unable and not any(facts.get(ability) for facts in told.values()):
        model = ", ".join(f'"{id}"' for id in unable)
        message = f"the model of {model} {port.needs.lacking}"
        problems.append(Problem(code="unable_model", message=message, node=node.id, title=node.title, input=port.name))


def recommended(node: CheckedNode, problems: list[Problem]) -> Mapping[str, Any]:
    """Ask a loader's ``recommend``; it is given those of the node's values that its parameters name."""
    recommend = node.entry.spec.recommend
    assert recommend
    parameters = inspect.signature(recommend).parameters.values()
    given = dict(node.values)
    if not any(p.kind is p.VAR_KEYWORD for p in parameters):
        given = {p.name: given[p.name] for p in parameters if p.name in given}
    if any(p.default is p.empty and p.kind is not p.VAR_KEYWORD and p.name not in given for p in parameters):
        return {}  # the name of the model comes over a link and is not known yet
    try:
        return recommend(**given)
    except (LookupError, OSError, ValueError) as e:
        message = f"its model's recommendations cannot be read: {e}"
        problems.append(Problem(code="no_recommendation", message=message, node=node.id, title=node.title))
    except Exception as e:
        fault = declaration_fault("recommend", e)
        problems.append(Problem(code="broken_node", node=node.id, title=node.title, **fault))
    return {}


def _upstream(nodes: Sequence[CheckedNode], loaders: Mapping[str, Any]) -> dict[str, frozenset[str]]:
    """For each node the loaders it depends on."""
    found: dict[str, frozenset[str]] = {}
    for node in nodes:
        sets = {found[source] for _, source, _ in node.links}
        own = frozenset([node.id]) if node.id in loaders else frozenset()
        found[node.id] = own.union(*sets) if own or len(sets) > 1 else next(iter(sets), own)
    return found


def _readers(nodes: Sequence[CheckedNode]) -> dict[str, list[str]]:
    """For each node those that read from it."""
    found: dict[str, list[str]] = {node.id: [] for node in nodes}
    for node in nodes:
        for _, source, _ in node.links:
            found[source].append(node.id)
    return found


def _offers(
    node: CheckedNode,
    told: Mapping[str, Any],
    upstream: Mapping[str, frozenset[str]],
    readers: Mapping[str, Sequence[str]],
) -> Mapping[str, Any]:
    """What the loaders that count for a node recommend: those it reads itself, else its model's, else all upstream.

    A node with none, an empty latent for instance, is asked for by those that read from it: the loaders upstream of
    its nearest readers count, and if there are none at all, every loader of the graph.
    """

    def of(ids: Set[str]) -> dict[str, Any]:
        return {id: value for id, value in told.items() if id in ids}

    ports = node.entry.spec.inputs
    model = {source for name, source, _ in node.links if name in ports and ports[name].type == "MODEL"}
    of_model = frozenset[str]().union(*(upstream[id] for id in model))
    if found := of({source for _, source, _ in node.links}) or of(of_model) or of(upstream[node.id]):
        return found
    seen = layer = {node.id}
    while layer := {reader for id in layer for reader in readers[id]} - seen:
        if found := of(frozenset().union(*(upstream[id] for id in layer))):
            return found
        seen = seen | layer
    return told


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
        told = ", ".join(f'"{id}": {shown(value)}' for id, value in offers.items())
        bad("conflicting_recommendations", f"the models recommend different values for {key}", "Give a value.", told)
        return None
    try:
        value = fit(port, values[0], port.choices if isinstance(port.choices, tuple) else None)
    except Misfit as e:
        bad("bad_recommendation", f"the model's recommendation for {key} does not fit", "", shown(values[0]), e.wanted)
        return None
    return Resolved(node.id, name, key, value, next(iter(offers)))
