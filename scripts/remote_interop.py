"""Interoperation with the packages that others use: openenv and mcp from PyPI, in a virtual environment that is thrown away.

    scripts/remote_interop.py [HONE]        # default: target/release/hone

Our OpenEnv server is validated and driven by the official clients, our client drives the official server (an MCP
environment and a typed one), and MCP is spoken both ways with the Python `mcp` package. Exit code 0: all of it works.
INTEROP_PYTHON names a Python that has the packages already.
"""
import json
import os
import subprocess
import sys
import tempfile
import venv

HERE = os.path.dirname(os.path.abspath(__file__))
HONE = os.path.abspath(sys.argv[1] if len(sys.argv) > 1 else os.path.join(HERE, "../target/release/hone"))
PACKAGES = ["openenv", "mcp"]
failed = []


def check(name, good, shown=""):
    print(f"{'ok  ' if good else 'FAIL'} {name}" + ("" if good else f": {str(shown)[-2000:]}"), flush=True)
    if not good:
        failed.append(name)


class Server:
    """A program that prints its address as its first line."""

    def __init__(self, *command):
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        self.url = self.process.stdout.readline().strip()
        if not self.url.startswith("http"):
            raise SystemExit(f"{command} said {self.url!r} instead of its address")

    def __enter__(self):
        return self.url

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()


def run(*command, **kwargs):
    return subprocess.run(command, capture_output=True, text=True, timeout=300, **kwargs)


def our_server(python):
    with Server(HONE, "env", "serve", "shop", "--addr", "127.0.0.1:0", "--set", "tasks=8", "--set", "held_out=4") as url:
        openenv = os.path.join(os.path.dirname(python), "openenv")
        report = run(openenv, "validate", "--url", url, "--json")
        verdict = json.loads(report.stdout) if report.stdout.strip().startswith("{") else {}
        criteria = verdict.get("criteria", [])
        good = report.returncode == 0 and criteria and all(one["passed"] for one in criteria)
        check(f"openenv validate --url: {len(criteria)} criteria", good, report.stdout + report.stderr)
        for name, code in CLIENTS.items():
            done = run(python, "-c", code, url)
            check(name, done.returncode == 0 and done.stdout.strip().endswith("ok"), done.stdout + done.stderr)


CLIENTS = {
    "the official generic client": """
import sys
from openenv.core.generic_client import GenericEnvClient
with GenericEnvClient(base_url=sys.argv[1]).sync() as env:
    first = env.reset(seed=3)
    assert not first.done and first.reward is None, first
    listed = env.step({"type": "list_tools"})
    assert len(listed.observation["tools"]) > 1, listed
    last = env.step({"type": "call_tool", "tool_name": "respond", "arguments": {"content": "done"}})
    assert last.done and last.reward == 0.0, last
    assert env.state()["step_count"] == 2
print("ok")
""",
    "the official MCPToolClient": """
import sys
from openenv.core.mcp_client import MCPToolClient
with MCPToolClient(base_url=sys.argv[1]).sync() as env:
    env.reset(seed=3)
    names = [tool.name for tool in env.list_tools()]
    assert "respond" in names and len(names) > 1, names
    said = env.call_tool("respond", content="done")
print("ok")
""",
    "the mcp package as a client": """
import asyncio, sys
from mcp import ClientSession
from mcp.client.streamable_http import streamable_http_client as connect
async def main():
    async with connect(sys.argv[1] + "/mcp?seed=3") as streams:
        async with ClientSession(streams[0], streams[1]) as session:
            hello = await session.initialize()
            assert hello.instructions, hello
            names = [tool.name for tool in (await session.list_tools()).tools]
            assert "respond" in names and len(names) > 1, names
            answer = await session.call_tool("respond", {"content": "done"})
            assert answer.content is not None
asyncio.run(main())
print("ok")
""",
}


def played(url, lines, *options):
    sets = [word for option in ("kind=openenv", f"url={url}", "tasks=2", "held_out=1", *options) for word in ("--set", option)]
    return run(HONE, "env", "play", "elsewhere", *sets, input="\n".join(lines) + "\n")


def official_server(python):
    echo = os.path.join(HERE, "openenv_echo.py")
    with Server(python, echo, "2") as url:
        done = played(url, ['echo_message {"message": "hello there"}', "/quit"])
        check("our client plays an MCP environment", "tool: hello there" in done.stdout, done.stdout + done.stderr)
    with Server(python, echo, "2", "typed") as url:
        done = played(url, ['say {"text": "one"}', 'say {"text": "hi"}'])
        good = "env_reward          1.000" in done.stdout
        check("our client plays a typed environment to its reward", good, done.stdout + done.stderr)
        done = played(url, ['say {"text": "boom"}'])
        check("an exception is a fault", "boom happened" in done.stderr, done.stdout + done.stderr)


MCP_SERVER = """
from mcp.server.fastmcp import FastMCP
server = FastMCP("counter", instructions="Count.")
count = 0
@server.tool()
def add(n: int) -> int:
    "Add to the count."
    global count
    count += n
    return count
@server.tool()
def total() -> dict:
    "The count."
    return {"count": count}
server.run()
"""


def mcp_servers(python, directory):
    server, tasks = os.path.join(directory, "counter.py"), os.path.join(directory, "tasks.jsonl")
    with open(server, "w") as file:
        file.write(MCP_SERVER)
    with open(tasks, "w") as file:
        for at in range(3):
            file.write(json.dumps({"key": f"t{at}", "prompt": "Make the count 5.", "expected": {"count": 5}}) + "\n")
    options = ["kind=mcp", f'command=["{python}", "{server}"]', f"task_file={tasks}", "verify=state", "state_tool=total", "held_out=1"]
    sets = [word for option in options for word in ("--set", option)]
    done = run(HONE, "env", "play", "counter", *sets, input='add {"n": 2}\nadd {"n": 3}\ndone\n')
    good = "tool: 5" in done.stdout and "correct             1.000" in done.stdout and "total(" not in done.stdout
    check("our client plays the mcp package's server, judged by its state", good, done.stdout + done.stderr)


def main():
    with tempfile.TemporaryDirectory() as directory:
        python = os.environ.get("INTEROP_PYTHON")
        if not python:
            venv.create(directory, with_pip=True)
            python = os.path.join(directory, "bin", "python")
            subprocess.run([python, "-m", "pip", "install", "--quiet", *PACKAGES], check=True)
        our_server(python)
        official_server(python)
        mcp_servers(python, directory)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
