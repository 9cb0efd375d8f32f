"""``pipegraph chat``, and texts from standard input: in a pipe, and as a process of its own on a terminal."""

from __future__ import annotations

import fcntl
import io
import os
import pty
import select
import shutil
import signal
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from pipegraph.cli import main
from pipegraph.cli.chat import Chat
from pipegraph.models.llm.chat.conversation import Conversation
from pipegraph.models.llm.decode.sampling import SamplingParams
from pipegraph.models.llm.load import load_llm
from pipegraph.models.llm.tokenizer import Tokenizer

from .conftest import save_llm

CONTEXT = 1 << 14
Done = tuple[int, str, str]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, tokenizer: Tokenizer) -> Path:
    """A folder of models with one that writes without end."""
    root = tmp_path_factory.mktemp("models")
    save_llm(root / "llm" / "tiny", tokenizer, max_position_embeddings=CONTEXT, eos_token_id=None)
    return root


@pytest.fixture(autouse=True)
def models(folder: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    for name, value in {"PIPEGRAPH_MODELS": folder, "XDG_DATA_HOME": tmp_path, "HF_HOME": tmp_path}.items():
        monkeypatch.setenv(name, str(value))


@pytest.fixture
def piped(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., Done]:
    """A command in this process, with standard input from a pipe: exit code, stdout and stderr."""

    def run(*args: str, send: bytes = b"") -> Done:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(send), encoding="utf-8"))
        with pytest.raises(SystemExit) as left:
            main(args)
        return int(left.value.code or 0), *capsys.readouterr()

    return run


def test_a_chat_in_a_pipe(piped: Callable[..., Done]) -> None:
    send = b"What is a lighthouse?\n\n/reset\nWhat is a lighthouse?\n/help\n/quit\nno\n"
    code, out, err = piped("chat", "--max-tokens", "6", send=send)
    first, second = out.splitlines()
    assert code == 0 and first == second != "" and "> " not in err and "/reset" in err
    assert "cut after 6 tokens" in err
    _, alone, _ = piped(
        "run", "chat.json", "--model", "tiny", "--max-tokens", "6", "--message", "What is a lighthouse?"
    )
    assert alone.splitlines()[0] == first


@pytest.mark.parametrize(
    ("send", "code", "error"),
    [
        (b"/image x.png\nhi\n", 1, "reads text only"),
        (b"/rest\nhi\n", 1, 'no such command: /rest; Did you mean "reset"'),
        (b"/image\nhi\n", 1, "it needs a path"),
        (b"fox " * CONTEXT, 1, "reads 16384 at most"),
        (b"\xff\n", 2, "no UTF-8 text"),
    ],
)
def test_what_fails_in_a_pipe_ends_it(piped: Callable[..., Done], send: bytes, code: int, error: str) -> None:
    found = piped("chat", send=send)
    assert found[:2] == (code, "") and error in found[2]


def test_a_message_that_looks_like_a_path_is_a_message(piped: Callable[..., Done]) -> None:
    code, out, _ = piped("chat", "--max-tokens", "2", send=b"/etc/hosts is what?\n/ or not\n")
    assert code == 0 and len(out.splitlines()) == 2


def test_without_a_model_that_chats(piped: Callable[..., Done], folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wrong = piped("chat", "--model", "tin", "--temperature", "-1", send=b"hi\n")
    assert wrong[:2] == (2, "") and 'nearest: "tiny"' in wrong[2] and "at least 0" in wrong[2]  # all at once
    shutil.copytree(folder / "llm" / "tiny", folder / "llm" / "other")
    several = piped("chat", send=b"hi\n")
    assert several[:2] == (2, "") and "several: other, tiny" in several[2] and "--model" in several[2]
    shutil.rmtree(folder / "llm" / "other")
    monkeypatch.setenv("PIPEGRAPH_MODELS", "")
    none = piped("chat", send=b"hi\n")
    assert none[:2] == (2, "") and "pipegraph models add smollm2" in none[2]
    assert "pipegraph models add smollm2" in piped("chat", "--model", "smollm2", send=b"hi\n")[2]


def test_a_message_from_standard_input(piped: Callable[..., Done]) -> None:
    args = ("run", "chat.json", "--model", "tiny", "--max-tokens", "6")
    wanted = piped(*args, "--message", "What is\na lighthouse?")[1]
    for n, more in enumerate((["--message", "-"], ["--message=-"], ["--set", "message=-"]), 1):  # seeds: no cache
        assert piped(*args, *more, "--seed", str(n), send=b"What is\na lighthouse?\n")[1] == wanted != ""
    code, _, err = piped(*args, "--message", "-", "--system", "-", send=b"hi")
    assert code == 2 and "--message and --system" in err
    graph = b'{"pipegraph": 1, "inputs": {"t": {"type": "STRING", "multiline": true}}, "nodes": {}}'
    assert "FILE and --t" in piped("run", "-", "--t", "-", send=graph)[2]
    assert "no UTF-8 text" in piped(*args, "--message", "-", send=b"\xff")[2]


class Interrupting(io.StringIO):
    """Presses Ctrl-C when something is written."""

    def write(self, text: str) -> int:
        if text.strip():
            os.kill(os.getpid(), signal.SIGINT)
        return super().write(text)


def test_ctrl_c_stops_the_answer_and_not_the_chat(monkeypatch: pytest.MonkeyPatch) -> None:
    llm = load_llm("tiny", torch.device("cpu"), torch.float32)
    conversation = Conversation(llm, SamplingParams(max_tokens=CONTEXT - 1000))
    monkeypatch.setattr(sys, "stdin", io.StringIO("Hello\n/quit\n"))
    monkeypatch.setattr(sys, "stdout", Interrupting())
    chat = Chat(conversation, interactive=True)
    assert chat.run() == 0
    assert [turn["role"] for turn in conversation.turns] == ["user", "assistant"]
    with pytest.raises(KeyboardInterrupt), chat._stopped_by_ctrl_c():
        os.kill(os.getpid(), signal.SIGINT)
        assert conversation._stopped
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(1)
    with pytest.raises(KeyboardInterrupt), Chat(conversation, interactive=False)._stopped_by_ctrl_c():
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(1)


class Terminal:
    """A chat on a terminal of its own."""

    def __init__(self, *args: str) -> None:
        self.main, other = pty.openpty()
        self.process = subprocess.Popen(
            [sys.executable, "-m", "pipegraph", "chat", *args],
            stdin=other,
            stdout=other,
            stderr=other,
            start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),  # Ctrl-C then goes to it
            env={**os.environ, "TERM": "xterm", "OMP_NUM_THREADS": "1"},
        )
        os.close(other)

    def type(self, text: str) -> None:
        os.write(self.main, text.encode())

    def until(self, wanted: str, seconds: float = 60) -> str:
        """What is shown up to a text."""
        shown, end = "", time.monotonic() + seconds
        while wanted not in shown:
            ready, _, _ = select.select([self.main], [], [], max(0, end - time.monotonic()))
            assert ready, f"{wanted!r} did not come: {shown[-2000:]!r}"
            shown += os.read(self.main, 1).decode(errors="replace")
        return shown

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        os.close(self.main)


@pytest.fixture
def terminal() -> Iterator[Terminal]:
    made = Terminal("--max-tokens", str(CONTEXT - 1000), "--temperature", "1")
    yield made
    made.close()


@pytest.mark.slow
def test_a_chat_on_a_terminal(terminal: Any) -> None:
    assert "/help lists the commands" in terminal.until("> ")
    terminal.type("/help\n")
    assert "/reset" in terminal.until("> ")
    for message in ("Hello", "And a fox?"):
        terminal.type(f"{message}\n")
        terminal.until(f"{message}\r\n")
        terminal.until("o")  # some of the answer
        terminal.type("\x03")
        assert "forgotten" not in terminal.until("stopped\r\n")
        terminal.until("> ")
    terminal.type("/reset\n")
    terminal.until("begins anew\r\n> ")
    terminal.type("half a line\x03")
    terminal.until("/quit or Ctrl-D leaves\r\n> ")
    terminal.type("/image x.png\n")
    assert "reads text only" in terminal.until("> ")
    terminal.type("\x04")
    assert terminal.process.wait(30) == 0
