"""Topological order of nodes, and cycles. No recursion: depth does not matter."""

from __future__ import annotations

from collections.abc import Mapping, Sequence


def sort(sources: Mapping[str, Sequence[str]], roots: Sequence[str]) -> tuple[list[str], list[list[str]]]:
    """Sort nodes topologically, depth first from the roots, so that branches end early.

    Args:
        sources: Node -> the nodes it reads from; names that are no keys are ignored.
        roots: First nodes; the others follow.

    Returns:
        The order, and the cycles, each with its first node repeated at the end. With a cycle the order is meaningless.
    """
    order: list[str] = []
    state: dict[str, bool] = {}  # absent: not seen; False: open, on the current path; True: done
    cyclic = False
    for start in (*roots, *sources):
        stack = [start] if start not in state and start in sources else []
        while stack:
            id = stack[-1]
            visited = state.get(id)
            if visited is None:
                state[id] = False
                for source in reversed(sources[id]):
                    known = state.get(source)
                    if known is None and source in sources:
                        stack.append(source)
                    elif known is False:
                        cyclic = True
            else:
                stack.pop()
                if not visited:
                    state[id] = True
                    order.append(id)
    return order, rings(sources) if cyclic else []


def rings(sources: Mapping[str, Sequence[str]]) -> list[list[str]]:
    """One cycle of each strongly connected component."""
    import networkx as nx

    net = nx.DiGraph((source, id) for id, read in sources.items() for source in read)
    cycles = []
    for group in sorted(map(sorted, nx.strongly_connected_components(net))):
        if len(group) > 1 or net.has_edge(group[0], group[0]):
            edges = nx.find_cycle(net.subgraph(group), group[0])
            cycles.append([edges[0][0], *(edge[1] for edge in edges)])
    return cycles
