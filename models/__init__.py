"""Models: families, loading, sampling, language models and media files."""

from pipegraph import lean_imports

lean_imports.install()
