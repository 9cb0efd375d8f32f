"""What all nodes declare of their inputs agrees with itself."""

from __future__ import annotations

from pipegraph.runtime.catalog import Catalog
from pipegraph.runtime.node import Port, broken_limit

PORTS: list[tuple[str, Port]] = [
    (f"{spec.id}.{name}", port) for spec in Catalog.load() for name, port in spec.inputs.items()
]


def test_defaults_are_within_limits() -> None:
    plain = [(name, port) for name, port in PORTS if isinstance(port.default, int | float)]
    assert len(plain) > 250
    assert not {name: why for name, port in plain if (why := broken_limit(port, port.default))}


def test_least_values_are_among_the_multiples() -> None:
    least = {name: port for name, port in PORTS if type(port.multiple_of) is int and port.minimum is not None}
    assert len(least) > 40
    assert not {name: why for name, port in least.items() if (why := broken_limit(port, port.minimum))}


def test_parts_of_the_way_are_shares() -> None:
    shares = {name: port for name, port in PORTS if name.endswith("_percent")}
    assert len(shares) > 5
    assert not [name for name, port in shares.items() if (port.minimum, port.maximum) != (0, 1)]
