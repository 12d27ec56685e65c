#!/usr/bin/env python3
"""Plays the newcomer: the binary alone, in an empty directory, every command of `hone init`'s README, then what came of it
loaded in transformers and PEFT (a throw-away virtual environment). Exit 0: everything worked, in time.

    scripts/newcomer.py [--hone target/release/hone] [--no-python]     HONE=path/to/hone works too
    scripts/newcomer.py --python VENV/bin/python                       one that has torch, transformers and PEFT
"""

import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time

PACKAGES = ["transformers==5.22.2", "tokenizers==0.23.3", "peft==0.21.2", "safetensors"]
# PyTorch for the CPU where its own index can be reached; else the package index's, with the CUDA libraries (gigabytes).
TORCH = [["torch", "--index-url", "https://download.pytorch.org/whl/cpu"], ["torch"]]
LIMIT = 600  # seconds for the commands; the downloads of the check at the end are not counted

LOAD = """
import json, sys, torch
from peft import PeftModel
from transformers import AutoModelForCausalLM, AutoTokenizer
model, merged, adapter, wanted = sys.argv[1:]
wanted = json.loads(wanted)
tokenizer = AutoTokenizer.from_pretrained(model)
ids = torch.tensor([wanted["prompt"]])
greedy = lambda m: m.generate(ids, do_sample=False, max_new_tokens=8, eos_token_id=None)[0, ids.shape[1]:].tolist()
load = lambda dir: AutoModelForCausalLM.from_pretrained(dir, dtype=torch.float32)
assert greedy(load(model)) == wanted["model"], (greedy(load(model)), wanted["model"])
peft = PeftModel.from_pretrained(load(json.load(open(adapter + "/adapter_config.json"))["base_model_name_or_path"]), adapter)
assert greedy(peft) == wanted["adapter"] == greedy(load(merged)), (greedy(peft), wanted["adapter"])
print("transformers and PEFT say the same tokens")
"""


class Newcomer:
    def __init__(self, hone, directory):
        self.hone, self.directory, self.began = hone, directory, time.monotonic()

    def run(self, *arguments, stdin="", at=None):
        """Runs a command and gives its standard output; leaves with what it said where it fails."""
        clock = time.monotonic()
        done = subprocess.run([self.hone, *arguments], cwd=at or self.directory, input=stdin, text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=LIMIT)
        print(f"{time.monotonic() - clock:7.1f} s  hone {' '.join(arguments)}", flush=True)
        if done.returncode:
            sys.exit(f"exit code {done.returncode}\n{done.stdout}\n{done.stderr}")
        return done.stdout


def main():
    parser = argparse.ArgumentParser()
    target = os.environ.get("CARGO_TARGET_DIR", "target")
    parser.add_argument("--hone", default=os.environ.get("HONE", f"{target}/release/hone"))
    parser.add_argument("--no-python", action="store_true", help="leave out transformers and PEFT")
    parser.add_argument("--python", type=pathlib.Path, help="an interpreter with torch, transformers and PEFT")
    options = parser.parse_args()
    hone = str(pathlib.Path(options.hone).resolve())
    with tempfile.TemporaryDirectory() as scratch:
        played = play(hone, pathlib.Path(scratch))
        if not options.no_python:
            load(pathlib.Path(scratch), played, options.python)


def play(hone, scratch):
    newcomer = Newcomer(hone, scratch)
    newcomer.run("init", "garden")
    newcomer.directory = scratch / "garden"
    shown = json.loads(newcomer.run("env", "show", "recipe.toml", "--json"))
    calls = [f"{call['name']} {json.dumps(call['arguments'])}" for call in shown["task"]["reference"]]
    played = newcomer.run("env", "play", "recipe.toml", stdin="\n".join(calls) + "\nDone.\n")
    assert "total               1.000" in played, played
    newcomer.run("train", "recipe.toml", "--help")
    made = json.loads(newcomer.run("sft", "recipe.toml", "--out", "policy", "--json"))
    print(f"           a policy of success {made['eval']['after']['success']:.3f}")
    result = json.loads(newcomer.run("train", "recipe.toml", "--json").splitlines()[-1])
    evals = result["eval"]["greedy"]
    print(f"           greedy {evals['before']['success']:.3f} -> {evals['after']['success']:.3f}; verdict: {result['verdict']}")
    assert evals["after"]["success"] >= evals["before"]["success"] - 0.1, "training made it worse"
    said = newcomer.run("chat", "runs/garden-1", "--env", "recipe.toml", "--json", stdin="\n").splitlines()
    assert any(json.loads(line).get("tool_calls") for line in said), said
    assert "rewards" in json.loads(said[-1]), said
    newcomer.run("report", "runs/garden-1")
    newcomer.run("train", "recipe.toml", "--set", "policy.model=runs/garden-1", "--set", "policy.lora.rank=4", "--set",
                 "train.steps=2", "--set", "eval.controls=false", "--run", "lora")
    newcomer.run("model", "export", "runs/garden-1", "--out", "exported")
    newcomer.run("model", "export", "lora", "--out", "adapter")
    newcomer.run("model", "merge", "lora", "--out", "merged")
    messages = json.dumps([{"role": "user", "content": "Please see to the mint and basil."}])
    prompt = json.loads(newcomer.run("render", "--model", "exported", "--ids", "-", stdin=messages))
    greedy = lambda model: json.loads(newcomer.run("engine", "greedy", "--model", model, "--max-new", "8", "-",
                                                   stdin=json.dumps(prompt)))["tokens"][0]
    wanted = {"prompt": prompt, "model": greedy("exported"), "adapter": greedy("lora")}
    seconds = time.monotonic() - newcomer.began
    print(f"{seconds:7.1f} s  in all")
    assert seconds < LIMIT, f"over {LIMIT} s"
    return wanted


def installed(venv):
    """The interpreter of a new virtual environment with torch, transformers and PEFT; None where torch cannot be had."""
    subprocess.run([sys.executable, "-m", "venv", venv], check=True)
    pip = [venv / "bin/pip", "--disable-pip-version-check", "-q", "install"]
    if all(subprocess.run([*pip, *torch], stderr=subprocess.DEVNULL).returncode for torch in TORCH):
        return None
    subprocess.run([*pip, *PACKAGES], check=True)
    return venv / "bin/python"


def load(scratch, wanted, python):
    """What was exported, in the libraries that others use."""
    garden, python = scratch / "garden", python or installed(scratch / "venv")
    if python is None:
        print("NOT CHECKED: transformers and PEFT, because torch cannot be downloaded here")
        return
    subprocess.run([python, "-c", LOAD, garden / "exported", garden / "merged", garden / "adapter",
                    json.dumps(wanted)], check=True)


if __name__ == "__main__":
    main()
