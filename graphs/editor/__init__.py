"""The form that ComfyUI's editor saves ("workflow" JSON 0.4 and 1.0): read, flattened, named and written.

``document`` reads the file as it is; ``flatten`` replaces subgraphs by their nodes and follows links through what only
the editor has (reroutes, primitives, bypassed nodes); ``naming`` gives the values that stand by position their names,
for which the ports of the nodes must be known.
"""
