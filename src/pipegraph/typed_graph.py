"""``pg.Graph``: a graph under construction, with the node library's types in ``typed_graph.pyi``."""

from pipegraph.builder import Builder


class Graph(Builder):
    """A graph under construction: every node of the library is a method."""
