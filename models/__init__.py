from pipegraph import lean_imports

lean_imports.install()
