#!/usr/bin/env python3
"""The adapters with the packages they are for, in a virtual environment that is thrown away: an environment of `verifiers` (its
ReasoningGymEnv), reward functions of TRL, an environment of Gymnasium; and a short training run on the first. Exit code 0: all of it works.

    scripts/adapters_interop.py [HONE]        # default: target/release/hone

ADAPTERS_PYTHON names a Python that has the packages already. TAU2_PYTHON names one with tau2[gym] (TAU2_DATA_DIR: its data),
which is not on PyPI: without it tau2-bench is left out, and said so.
"""
import http.server
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import threading
import venv

HERE = pathlib.Path(__file__).resolve().parent
HONE = os.path.abspath(sys.argv[1] if len(sys.argv) > 1 else HERE / "../target/release/hone")
PACKAGES = ["verifiers>=0.1.14,<0.4", "reasoning-gym", "math-verify", "gymnasium"]
NAMES = ["verifiers", "reasoning-gym", "math-verify", "gymnasium", "trl", "torch"]
BARE = ["trl"]  # Its reward functions need no torch; its dependencies do.
failed = []


def check(name, good, shown=""):
    print(f"{'ok  ' if good else 'FAIL'} {name}" + ("" if good else f": {str(shown)[-3000:]}"), flush=True)
    if not good:
        failed.append(name)


def hone(*arguments, at, stdin="", timeout=600):
    done = subprocess.run([HONE, *map(str, arguments)], cwd=at, input=stdin, capture_output=True, text=True, timeout=timeout)
    done.said = done.stdout + done.stderr
    return done


def imported(source, python, at, into=None, *options):
    """The block of `hone env import`, as a recipe file."""
    done = hone("env", "import", source, "--python", python, "--to", at, *options, at=at)
    if done.returncode:
        raise SystemExit(f"hone env import {source}: {done.said}")
    path = at / (into or "recipe.toml")
    path.write_text(done.stdout)
    return path


# An environment package as verifiers wants it: a module with load_environment.
BITS = """
from verifiers.envs.integrations.reasoninggym_env import ReasoningGymEnv

def load_environment(rows=256, held_out=64):
    gym = [{"name": "count_bits", "weight": 1, "config": {"min_n": 1, "max_n": 15}}]
    return ReasoningGymEnv(gym=gym, num_train_examples=rows, num_eval_examples=held_out)
"""

# Its rows as tasks: a solution each, and what somebody says who counts one too many more often than not.
TASKS = """
import json, random, bits
env, rng = bits.load_environment(), random.Random(1)
said = lambda value: [{"name": "answer", "arguments": {"text": f"<answer>{value}</answer>"}}]
for name, key, rows in [("train", "bits-train", env.get_dataset()), ("eval", "bits-held-out", env.get_eval_dataset())]:
    with open(name + ".jsonl", "w") as file:
        for at, row in enumerate(rows):
            right = int(env.rg_dataset[int(row["answer"])]["answer"])
            task = {"key": f"{key}-{at}", "row": at, "prompt": row["question"], "answer": str(right), "reference": said(right),
                    "demonstration": said(right + (rng.random() < 0.6))}
            file.write(json.dumps(task) + "\\n")
"""

RECIPE = """
name = "bits"
credit = "grpo"
loss = "dapo"

[policy]
model = "policy"

[policy.fresh]
vocabulary = 512
layers = 2
hidden = 128
json_tokens = true

[sampling]
max_new_tokens = 32

[rollout]
window = 512
max_turns = 2
malformed = "end"

[sft]
steps = 200
batch = 16
learning_rate = 3e-3
warmup = 20
decay = "linear"
solutions_until = 0.5

[train]
steps = 50
groups = 16
group_size = 8
learning_rate = 3e-4
decay = "linear"
warmup = 3

[eval]
tasks = 64
controls = false

"""


def verifiers(python, at):
    packages = subprocess.run([python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"], capture_output=True, text=True)
    pathlib.Path(packages.stdout.strip(), "bits.py").write_text(BITS)
    subprocess.run([python, "-c", TASKS], cwd=at, check=True, capture_output=True)
    imported("verifiers:bits", python, at)
    recipe = at / "recipe.toml"
    files = 'task_file = "train.jsonl"\nheld_out_file = "eval.jsonl"\n'
    recipe.write_text(RECIPE + recipe.read_text().replace("\n\n", f"\n{files}\n", 1))
    done = hone("env", "play", recipe, "--as", "oracle", at=at)
    check("a verifiers environment pays its reference", "env_reward          1.000" in done.stdout, done.said)
    done = hone("env", "play", recipe, at=at, stdin='answer {"text": "<answer>99</answer>"}\n')
    check("and not a wrong answer", "env_reward          0.0" in done.stdout, done.said)
    return recipe


def trl(python, at):
    """Reward functions of the package, over completions, and as a component of a recipe."""
    blocks = [imported(f"reward:trl.rewards:{name}", python, at, "reward.toml").read_text()
              for name in ("accuracy_reward", "think_format_reward")]
    rubric = at / "rubric.toml"
    rubric.write_text("".join(blocks))
    cases = [("<think>\none third\n</think>\nIt is \\boxed{1/3}", 1.0, 1.0), ("It is \\boxed{0.4}", 0.0, 0.0)]
    lines = [json.dumps({"id": n, "completion": text, "reference": "\\frac{1}{3}"}) for n, (text, *_) in enumerate(cases)]
    done = hone("score", "--reward", rubric, "-", "--json", at=at, stdin="\n".join(lines) + "\n")
    found = [[one["value"] for one in json.loads(line)["components"].values()] for line in done.stdout.splitlines()]
    check("reward functions of TRL score completions", found == [[right, form] for _, right, form in cases], done.said)


def gymnasium(python, at):
    recipe = imported("gym:FrozenLake-v1", python, at, "lake.toml")
    done = hone("env", "play", recipe, at=at, stdin='act {"action": 4}\nact {"action": 2}\n/quit\n')
    seen = ["user: 0", "greater than the maximum of 3", "tool: "]
    check("a Gymnasium environment is played, its actions held to its space", all(text in done.stdout for text in seen), done.said)


class User(http.server.BaseHTTPRequestHandler):
    """A model that plays a user: it asks once, then is content."""

    def log_message(self, *_):
        pass

    def do_POST(self):
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))["messages"]
        said = "###STOP###" if any(one["role"] == "assistant" for one in asked) else "Create the task Important Meeting, I am user_1."
        choice = {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": said}}
        usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
        text = json.dumps({"id": "x", "object": "chat.completion", "created": 0, "model": "stub", "choices": [choice], "usage": usage})
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.end_headers()
        self.wfile.write(text.encode())


def tau2(python, at):
    """A task of tau2's own mock domain: from its ticket, with a user, and with a user that cannot be reached."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), User)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    user = lambda port: {"user_llm": "openai/stub", "user_llm_args": {
        "api_base": f"http://127.0.0.1:{port}", "api_key": "none", "num_retries": 0, "timeout": 5}}
    tasks, create = at / "tau2.jsonl", 'create_task {"user_id": "user_1", "title": "Important Meeting"}\n'
    tasks.write_text("".join(json.dumps({"key": f"t{n}", "task_id": "create_task_1", "prompt": ""}) + "\n" for n in range(2)))
    for name, options, lines, wanted in [
        ("from its ticket", {"solo_mode": True}, create + "done {}\n", "env_reward          1.000"),
        ("and not for nothing", {"solo_mode": True}, "done {}\n", "env_reward          0.000"),
        ("with a user", user(server.server_address[1]), create + "It is done.\n", "env_reward          1.000"),
        ("a user that cannot be reached is a fault", user(1), "", "the simulation ended before the agent's turn"),
    ]:
        recipe = imported("tau2:mock", python, at, "tau2.toml", "--arguments", json.dumps(options))
        files = 'task_file = "tau2.jsonl"\nheld_out = 1\n'
        recipe.write_text(recipe.read_text().replace("\n\n", f"\n{files}\n", 1) + "\n[eval]\ntasks = 1\n")
        done = hone("env", "play", recipe, at=at, stdin=lines)
        check(f"tau2-bench, {name}", wanted in done.said, done.said)


def training(recipe, at):
    """A policy made from nothing, then trained by what the package's rubric pays."""
    made = hone("sft", recipe, "--out", "policy", "--json", at=at)
    if made.returncode:
        return check("hone sft", False, made.said)
    done = hone("train", recipe, "--json", at=at)
    if done.returncode:
        return check("hone train", False, done.said)
    evals = json.loads(done.stdout.splitlines()[-1])["eval"]
    before, after = evals["sampled"]["before"], evals["sampled"]["after"]
    shown = f"{before['success']:.3f} -> {after['success']:.3f} sampled on {after['n']} held-out tasks"
    greedy = "{before[success]:.3f} -> {after[success]:.3f} greedily".format(**evals["greedy"])
    good = after["success"] > before["success"] and after["faults"] == 0
    check(f"a policy is trained on a verifiers environment: {shown}, {greedy}", good, done.said)


def main():
    with tempfile.TemporaryDirectory() as directory:
        at, python = pathlib.Path(directory), os.environ.get("ADAPTERS_PYTHON")
        if not python:
            venv.create(at / "venv", with_pip=True)
            python = str(at / "venv/bin/python")
            pip = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
            subprocess.run([*pip, *PACKAGES], check=True)
            subprocess.run([*pip, "--no-deps", *BARE], check=True)
        listed = subprocess.run([python, "-m", "pip", "list", "--format=freeze"], capture_output=True, text=True).stdout.split()
        print("with", *[line for line in listed if line.split("==")[0].replace("_", "-") in NAMES])
        recipe = verifiers(python, at)
        trl(python, at)
        gymnasium(python, at)
        if python := os.environ.get("TAU2_PYTHON"):
            tau2(python, at)
        else:
            print("NOT RUN: tau2-bench, which is not on PyPI; TAU2_PYTHON names a Python that has it")
        training(recipe, at)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
