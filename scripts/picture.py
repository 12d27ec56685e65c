#!/usr/bin/env python3
"""Makes docs/live.svg, the picture in README: the live view of a real run, as a terminal shows it.

    scripts/picture.py [--hone target/release/hone] [--step 60] [--out docs/live.svg] [-- ARGUMENTS OF hone train]

Runs `hone train` in a pseudo-terminal, keeps what the screen shows after the step, and ends the run.
"""

import argparse
import fcntl
import html
import os
import pathlib
import pty
import re
import select
import signal
import struct
import tempfile
import termios
import time

COLUMNS, ROWS = 100, 40
LIMIT = 900  # seconds
ESCAPE = re.compile(r"\x1b\[([0-9;?]*)([A-Za-z])")
COLOURS = {"31": "red", "32": "green", "33": "yellow", "34": "blue", "36": "cyan", "90": "dim", "2": "dim", "1": "bold"}


class Screen:
    """The few escapes that the program writes: colours, up, start of line, erase."""

    def __init__(self):
        self.lines, self.row, self.column, self.style = [[]], 0, 0, frozenset()

    def write(self, text):
        at = 0
        while at < len(text):
            escape = ESCAPE.match(text, at)
            if escape:
                self.escape(*escape.groups())
                at = escape.end()
                continue
            if text[at] == "\n":
                self.row, self.column = self.row + 1, 0
            elif text[at] == "\r":
                self.column = 0
            elif text[at] >= " ":
                self.put(text[at])
            while self.row >= len(self.lines):
                self.lines.append([])
            at += 1

    def put(self, character):
        if self.column == COLUMNS:
            self.row, self.column = self.row + 1, 0
            self.lines.insert(self.row, [])
        line = self.lines[self.row]
        line.extend([(" ", frozenset())] * (self.column + 1 - len(line)))
        line[self.column] = (character, self.style)
        self.column += 1

    def escape(self, numbers, kind):
        first = int(numbers) if numbers.isdigit() else None
        if kind == "m":
            for number in numbers.split(";") or ["0"]:
                known = COLOURS.get(number)
                self.style = self.style | {known} if known else frozenset() if number in ("0", "", "39", "22") else self.style
        elif kind in "AF":
            self.row = max(0, self.row - (first or 1))
            self.column = 0 if kind == "F" else self.column
        elif kind == "K":
            del self.lines[self.row][0 if first == 2 else self.column:]
        elif kind == "J":
            del self.lines[self.row][self.column:]
            del self.lines[self.row + 1:]

    def shown(self):
        return [line for line in self.lines if any(character != " " for character, _ in line)][-ROWS:]


def watch(command, directory, step):
    """The screen after so many steps."""
    child, terminal = pty.fork()
    if child == 0:
        os.chdir(directory)
        os.environ |= {"TERM": "xterm-256color", "COLUMNS": str(COLUMNS)}
        os.environ.pop("NO_COLOR", None)
        os.execv(command[0], command)
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
    screen, began, rest = Screen(), time.monotonic(), b""
    done = re.compile(rf"step +{step}\b")
    try:
        while time.monotonic() - began < LIMIT:
            if not select.select([terminal], [], [], 1)[0]:
                continue
            try:
                data = rest + os.read(terminal, 65536)
            except OSError:
                break
            # Neither half a character nor half an escape.
            whole = data.rfind(b"\n") + 1
            screen.write(data[:whole].decode("utf-8", "replace"))
            rest = data[whole:]
            if any(done.search("".join(character for character, _ in line)) for line in screen.shown()):
                return screen.shown()
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    raise SystemExit(f"step {step} was not shown in {LIMIT} s; the screen:\n" + "\n".join("".join(c for c, _ in line) for line in screen.shown()))


def drawn(lines):
    """The screen as SVG, a text element for each line and a span for each run of one style."""
    width, height = COLUMNS * 7.8 + 32, len(lines) * 18 + 34
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height}" role="img" aria-label="hone train in a terminal">',
           "<style>text{font:13px/18px ui-monospace,SFMono-Regular,Menlo,Consolas,monospace;fill:#d8d6d0;white-space:pre}"
           ".bold{font-weight:600;fill:#fff}.dim{fill:#8b8983}.red{fill:#ee8377}.green{fill:#6cc29a}.yellow{fill:#dfa44e}"
           ".blue{fill:#7fb2e5}.cyan{fill:#5fc4d0}</style>",
           f'<rect width="{width:.0f}" height="{height}" rx="8" fill="#151514"/>']
    for number, line in enumerate(lines):
        spans, start = [], 0
        for at in range(1, len(line) + 1):
            if at == len(line) or line[at][1] != line[start][1]:
                text = html.escape("".join(character for character, _ in line[start:at]))
                style = " ".join(sorted(line[start][1]))
                spans.append(f'<tspan class="{style}">{text}</tspan>' if style else text)
                start = at
        out.append(f'<text x="16" y="{number * 18 + 28}" xml:space="preserve">{"".join(spans)}</text>')
    return "\n".join([*out, "</svg>", ""])


def main():
    parser = argparse.ArgumentParser()
    target = os.environ.get("CARGO_TARGET_DIR", "target")
    parser.add_argument("--hone", default=f"{target}/release/hone")
    parser.add_argument("--step", type=int, default=60)
    parser.add_argument("--out", default="docs/live.svg")
    parser.add_argument("arguments", nargs="*", help="arguments of hone train")
    options = parser.parse_args()
    hone = str(pathlib.Path(options.hone).resolve())
    with tempfile.TemporaryDirectory() as directory:
        lines = watch([hone, "train", *options.arguments], directory, options.step)
    pathlib.Path(options.out).write_text(drawn(lines))
    print(f"{options.out}: {pathlib.Path(options.out).stat().st_size} bytes, {len(lines)} lines")


if __name__ == "__main__":
    main()
