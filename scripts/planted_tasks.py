#!/usr/bin/env python3
"""Planted bad tasks through `hone data validate`, in a counter over stdio: each is rejected for what is wrong with it, no good one is,
and the viewer shows all of them with reason and trace. Exit code 0: so it is.

    scripts/planted_tasks.py [HONE]        # default: target/release/hone
"""
import json
import os
import pathlib
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
HONE = os.path.abspath(sys.argv[1] if len(sys.argv) > 1 else HERE / "../target/release/hone")

ENVIRONMENT = '''
import json, sys

SCHEMA = {"type": "object", "properties": {"by": {"type": "integer"}}, "required": ["by"]}
TOOLS = [{"name": name, "description": name, "parameters": SCHEMA} for name in ("add", "look")]
episodes, opened = {}, {}

def facts(task, value, number):
    """A verifier that is right, or content with everything, or raises, or says no in every other episode."""
    kind, right = task["verifier"].get("kind"), value == task["verifier"].get("wants")
    made = [{"path": "/value", "to": value}] if value else []
    said = {"writes": ["add"], "changes": {"made": made, "wanted": []}}
    if kind == "raises":
        return said
    return said | {"correct": kind == "always" or right and (kind != "flaky" or number % 2 == 0)}

def act(call, episode):
    by = call["arguments"].get("by")
    if call["name"] == "add" and by > 0:
        episode["value"] += by
        return "ok"
    return str(episode["value"]) if call["name"] == "look" else "Error: not a positive number"

for line in sys.stdin:
    ask = json.loads(line)
    episode, answer = episodes.get(ask.get("episode")), {}
    if ask["op"] == "close":
        episodes.pop(ask["episode"], None)
        continue
    if ask["op"] == "open" and ask["task"]["verifier"].get("kind") == "broken":
        answer = {"error": "no such data"}
    elif ask["op"] == "open":
        key = ask["task"]["key"]
        opened[key] = opened.get(key, 0) + 1
        episodes[ask["episode"]] = {"task": ask["task"], "value": 0, "number": opened[key]}
        answer = {"system": "", "tools": TOOLS, "messages": [{"role": "user", "content": ask["task"]["prompt"]}],
                  "facts": facts(ask["task"], 0, opened[key])}
    elif ask["op"] == "step":
        calls = ask["action"].get("calls", [])
        said = [{"role": "tool", "name": call["name"], "content": act(call, episode)} for call in calls]
        failed = sum(one["content"].startswith("Error") for one in said)
        answer = {"messages": said, "failed": failed, "done": not calls,
                  "facts": facts(episode["task"], episode["value"], episode["number"])}
    print(json.dumps({"id": ask["id"], **answer}), flush=True)
'''

RECIPE = '''
name = "counter"
[env]
name = "counter"
command = ["python3", "counter.py"]
[[rubric.component]]
kind = "correct"
[eval]
success = "correct"
'''


def call(name, by):
    return {"name": name, "arguments": {"by": by}}


def task(key, reference, dated=True, **verifier):
    variables = {"variables": {"CURRENT_DATE": "2025-01-31"}} if dated else {}
    return {"key": key, "env": "counter", "prompt": f"Count, for {key}.", "verifier": verifier, **variables,
            **({"reference": reference} if reference else {})}


PLANTED = [
    (task("good-1", [call("look", 0), call("add", 3)], wants=3), None),
    (task("good-2", [call("add", 4)], wants=4), None),
    (task("no-op", [call("look", 1)], wants=0), None),
    (task("failing-call", [call("add", -1), call("add", 3)], wants=3), "a reference call fails"),
    (task("passes-on-seed", [call("add", 1)], kind="always"), "the verifier passes on the seed state"),
    (task("flaky", [call("add", 3)], kind="flaky", wants=3), "flaky verifier"),
    (task("raises", [call("add", 3)], kind="raises"), "verifier exception"),
    (task("broken", [call("add", 3)], kind="broken"), "environment fault"),
    (task("wrong-reference", [call("add", 3)], wants=5), "the reference does not pass"),
    (task("unsolvable", None, wants=5), "unsolvable"),
    (task("undated", [call("add", 2)], dated=False, wants=2), "missing date"),
    (task("good-1", [call("look", 0), call("add", 3)], wants=3) | {"key": "twin"}, "duplicate"),
    ({"key": "no-prompt", "env": "counter"}, "wrong schema"),
    (task("good-3", [call("add", 5)], wants=5), None),
]


def hone(*arguments, at):
    return subprocess.run([HONE, *map(str, arguments)], cwd=at, capture_output=True, text=True, timeout=300)


def main():
    with tempfile.TemporaryDirectory() as directory:
        at = pathlib.Path(directory)
        (at / "counter.py").write_text(ENVIRONMENT)
        (at / "recipe.toml").write_text(RECIPE)
        (at / "tasks.jsonl").write_text("".join(json.dumps(task) + "\n" for task, _ in PLANTED))
        done = hone("data", "validate", "tasks.jsonl", "--recipe", "recipe.toml", "--out", "checked", at=at)
        assert done.returncode == 1, done.stdout + done.stderr
        rows = [json.loads(line) for line in (at / "checked/rejected.jsonl").open()]
        found = {row["finding"]["key"]: row["reason"] for row in rows}
        wanted = {task["key"]: reason for task, reason in PLANTED if reason}
        assert found == wanted, {key: (found.get(key), wanted.get(key)) for key in found | wanted if found.get(key) != wanted.get(key)}
        kept = {json.loads(line)["key"] for line in (at / "checked/tasks.jsonl").open()}
        assert kept == {task["key"] for task, reason in PLANTED if not reason}, kept
        print(f"ok   {len(found)} planted tasks are rejected for what is wrong with them, {len(kept)} good ones are kept")
        shown = hone("show", "checked", at=at).stdout
        assert hone("view", "checked", "--export", "page.html", at=at).returncode == 0
        page = (at / "page.html").read_text()
        for key, reason in wanted.items():
            assert key in shown and reason in shown and key in page and reason in page, f"{key}: {reason} is not shown"
        assert 'href="#trace-0-' in page, "no trace of a rejected task is in the page"
        print("ok   the viewer shows each with its reason, and how it was played")


if __name__ == "__main__":
    main()
