"""Put nodes into order, or find the rings that forbid it. No recursion: depth does not matter."""

from __future__ import annotations

from collections.abc import Mapping, Sequence


def sort(sources: Mapping[str, Sequence[str]], roots: Sequence[str]) -> tuple[list[str], list[list[str]]]:
    """Every node after those it reads from; depth first from the roots, so that branches end early.

    Args:
        sources: Node -> the nodes it reads from; those that are no keys are left out.
        roots: Where to begin; the other nodes follow.

    Returns:
        The order, and the rings among the nodes, each with its first node repeated at the end. With a ring the order
        means nothing.
    """
    order: list[str] = []
    state: dict[str, bool] = {}  # absent: not seen; False: open, on the current path; True: done
    cyclic = False
    for start in (*roots, *sources):
        stack = [start] if start not in state and start in sources else []
        while stack:
            id = stack[-1]
            seen = state.get(id)
            if seen is None:
                state[id] = False
                for source in reversed(sources[id]):
                    known = state.get(source)
                    if known is None and source in sources:
                        stack.append(source)
                    elif known is False:
                        cyclic = True
            else:
                stack.pop()
                if not seen:
                    state[id] = True
                    order.append(id)
    return order, rings(sources) if cyclic else []


def rings(sources: Mapping[str, Sequence[str]]) -> list[list[str]]:
    """One ring of each group of nodes that read from each other."""
    import networkx as nx

    net = nx.DiGraph((source, id) for id, found in sources.items() for source in found)
    made = []
    for group in sorted(map(sorted, nx.strongly_connected_components(net))):
        if len(group) > 1 or net.has_edge(group[0], group[0]):
            edges = nx.find_cycle(net.subgraph(group), group[0])
            made.append([edges[0][0], *(edge[1] for edge in edges)])
    return made
