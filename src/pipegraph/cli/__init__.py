"""The command line. Each command is a module of this folder, imported only when it is called."""

from __future__ import annotations

import gc
import io
import os
import sys
import threading
import time
from collections.abc import Sequence
from importlib import import_module

import click

from .streams import mute, open_streams

COMMANDS = {
    "run": "Run a graph and save its results.",
    "chat": "Talk with a language model.",
    "validate": "Report every problem of a graph; runs nothing.",
    "convert": "Write a graph in another form.",
    "show": "Draw a graph.",
    "nodes": "List the nodes, or show the inputs and outputs of one.",
    "explain": "Say what the code of an error means and how to mend it.",
    "schema": "Print a JSON Schema of graph files.",
    "graphs": "List the ready-made graphs.",
    "models": "List what can be loaded and from where, or show one model.",
    "kernels": "Show which kernels are used here, and why.",
    "bench": "Measure the kernels on this machine.",
    "doctor": "Check this machine and this installation.",
}
MODULES = {"show": "draw"}
"""Commands whose module has another name."""
DONE, FAILED, WRONG, INTERRUPTED = 0, 1, 2, 130
"""Exit codes: done, the run failed, the graph or the call is invalid, interrupted."""
COMPLETE = "_PIPEGRAPH_COMPLETE"
"""Environment variable of shell completion."""
COLLECT_EVERY = 20_000
"""Threshold of the garbage collector; with 700, the default, importing torch takes 1.5 times as long."""
THREAD_SECONDS = 5.0
"""Seconds that a finished command waits for threads of nodes."""


class Commands(click.Group):
    """A group whose commands are imported when they are called; the help needs none of them."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command:
        if cmd_name not in COMMANDS:
            from pipegraph.graphs.errors import nearest

            hint = f"Did you mean: pipegraph run {cmd_name}?" if "." in cmd_name else nearest(cmd_name, COMMANDS)
            raise click.UsageError(f'no such command: "{cmd_name}". {hint}', ctx)
        command: click.Command = import_module(f"{__name__}.{MODULES.get(cmd_name, cmd_name)}").command
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))


def _version(ctx: click.Context, _: click.Parameter, wanted: bool) -> None:
    if wanted:
        import pipegraph

        click.echo(f"pipegraph {pipegraph.__version__}")
        ctx.exit()


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.option("--version", is_flag=True, is_eager=True, expose_value=False, callback=_version, help="Show the version.")
def commands() -> None:
    """Run graphs of language, image and video models.

    \b
    pipegraph run flux.json --prompt "a red apple on the beach" --seed 7
    pipegraph run flux.json --help      the inputs of that graph
    """


def main(args: Sequence[str] | None = None) -> None:
    """Run one command and leave the process with its exit code."""
    ctx = None
    if args is None and (instruction := os.environ.get(COMPLETE)):
        from click.shell_completion import shell_complete

        sys.exit(shell_complete(commands, {}, "pipegraph", COMPLETE, instruction))
    if args is None:  # else the process is somebody else's
        open_streams()
        gc.set_threshold(COLLECT_EVERY)
    try:
        ctx = commands.make_context("pipegraph", list(sys.argv[1:] if args is None else args))
        with ctx:
            commands.invoke(ctx)
        code = DONE
    except click.exceptions.Exit as done:
        code = done.exit_code
    except (KeyboardInterrupt, click.Abort):
        code = _interrupted()
    except BrokenPipeError:  # the reader of a list has gone, as with `| head`; a run goes on without its reader
        mute(sys.stdout)
        code = FAILED if ctx and ctx.invoked_subcommand == "run" else DONE
    except Exception as error:
        code = _report(error, as_json=bool(ctx and ctx.meta.get("pipegraph.json")))
    if args is None:
        if "triton" not in sys.modules:  # its bindings complain of objects that are not collected
            gc.freeze()  # skip garbage collection at exit: a third of a second
        _leave_within(THREAD_SECONDS, code)
    sys.exit(code)


def _leave_within(seconds: float, code: int) -> None:
    """End the process even if nodes left running threads, for which Python would wait forever."""

    def leave() -> None:
        from . import show

        time.sleep(seconds)
        names = ", ".join(t.name for t in threading.enumerate() if not t.daemon and t is not threading.main_thread())
        show.echo(f"a node left running threads ({names}): they were ended", err=True)
        sys.stdout.flush()
        os._exit(code)

    if any(not thread.daemon for thread in threading.enumerate() if thread is not threading.main_thread()):
        threading.Thread(target=leave, daemon=True).start()


def _interrupted() -> int:
    from . import show

    show.echo("interrupted", err=True)
    return INTERRUPTED


def _report(error: Exception, as_json: bool) -> int:
    """Print an error in the common form and return its exit code. Unexpected errors are raised again."""
    from pipegraph.runtime.errors import Cancelled, DeclarationError, GraphError, Problem, RunError

    from . import show

    unlisted = 0
    match error:
        case GraphError(problems=problems):
            listed, unlisted, code = problems, error.unlisted, WRONG
        case RunError(problem=problem):
            listed, code = (problem,) if not as_json else (), FAILED  # its events have reported it
        case Cancelled():
            return _interrupted()
        case DeclarationError():
            listed, code = (Problem(code="bad_declaration", message=str(error)),), WRONG
        case click.ClickException() if as_json:
            listed, code = (Problem(code="usage", message=error.format_message()),), WRONG
        case click.ClickException():
            error.show(text := io.StringIO())
            show.echo(text.getvalue().rstrip("\n"), err=True)
            return WRONG
        case _:
            raise error
    if as_json and listed:
        rest = {"unlisted": unlisted} if unlisted else {}
        show.json_line({"event": "error", "problems": [p.as_dict() for p in listed], **rest})
    else:
        show.problems(listed, unlisted)
    return code
