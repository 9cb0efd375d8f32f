"""Differences between a run and the run that made the picture or video of its graph."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pipegraph.graphs.schema import Origin

from .record import versions

if TYPE_CHECKING:
    from .plan import Step


def differences(origin: Origin, settings: Mapping[str, Any], steps: Sequence[Step]) -> list[str]:
    """A sentence for each setting, file and version that differs, with old and new value.

    Args:
        origin: The original run.
        settings: Settings of this run, under the same names.
        steps: Steps of this run, with hashes of their files. A renamed file is no difference.
    """
    return [*_settings(origin, settings), *_files(origin, steps), *_versions(origin)]


def _settings(origin: Origin, settings: Mapping[str, Any]) -> Iterator[str]:
    for key, old in origin.settings.items():
        if (new := settings.get(key, old)) != old:
            hint = f" (OMP_NUM_THREADS={old} gives the same)" if key == "threads" else ""
            yield f"{key}: made with {_setting(old)}, this run uses {_setting(new)}{hint}"


def _setting(value: Any) -> str:
    if isinstance(value, Mapping):
        return ",".join(f"{op}={backend}" for op, backend in value.items()) or "auto"
    return str(value) or "none"


def _files(origin: Origin, steps: Sequence[Step]) -> Iterator[str]:
    for step in steps:
        for name, digest in step.files.items():
            used = origin.files.get(f"{step.node.id}.{name}")
            value = step.values[name]
            if used and used.digest != digest and used.name in (None, value):
                where = f'node "{step.node.id}", input "{name}"'
                yield f'{where}: "{value}" has changed: made with SHA-256 {used.digest[:12]}…, now {digest[:12]}…'


def _versions(origin: Origin) -> Iterator[str]:
    now = versions()
    for name, old in origin.versions.items():
        if now.get(name) != old:
            yield f"{name}: made with {old}, this is {now.get(name, 'not installed')}"
