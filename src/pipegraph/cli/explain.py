"""``pipegraph explain``: what the code of an error means and how to mend it."""

from __future__ import annotations

import click

from pipegraph.graphs.codes import CODES
from pipegraph.graphs.errors import nearest

from .show import columns, echo, json_line


def complete_codes(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    """Codes that begin so."""
    return [code for code in CODES if code.startswith(incomplete.lower())]


@click.command()
@click.argument("code", default="", shell_complete=complete_codes)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.option("--markdown", is_flag=True, help="Print the page docs/errors.md.")
def command(code: str, as_json: bool, markdown: bool) -> None:
    """Say what CODE means and how to mend it, or list all codes.

    \b
    pipegraph explain unknown_node
    """
    if code and code not in CODES:
        raise click.UsageError(f'no error has the code "{code}". {nearest(code, CODES)}'.strip())
    listed = {code: CODES[code]} if code else CODES
    if as_json:
        json_line([{"code": name, **fault._asdict()} for name, fault in listed.items()])
    elif markdown:
        click.echo(page(), nl=False)
    elif code:
        echo(f"{click.style(code, bold=True)}  {CODES[code].stage}\n\n{CODES[code].meaning}\n{CODES[code].mend}")
    else:
        columns([(name, fault.meaning) for name, fault in CODES.items()])


def page() -> str:
    """The page docs/errors.md."""
    lines = [
        "# Errors",
        "",
        "Written by `pipegraph explain --markdown`. The exit code is 2 unless another one is named.",
    ]
    for stage in dict.fromkeys(fault.stage for fault in CODES.values()):
        lines += ["", f"## {stage}", "", "| code | what it means | what to do |", "| --- | --- | --- |"]
        lines += [f"| `{name}` | {f.meaning} | {f.mend} |" for name, f in CODES.items() if f.stage == stage]
    return "\n".join(lines) + "\n"
