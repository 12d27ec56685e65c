"""A TRL-style reward function as a reward component of Hone.

    [[rubric.component]]
    kind = "stdio"
    command = ["path/to/venv/bin/python", "reward_function.py", "my_rewards.py:format_reward"]

The function is called as TRL calls it, with lists of one: prompts, completions, and the case's other fields as columns
(`reference`, `question`, `correct`, …); the reference is also there as `answer`, `solution` and `ground_truth`. It returns a
list of numbers; None is unscored. Add --text for functions that want completions as strings instead of messages.
"""
import contextlib
import importlib
import importlib.util
import inspect
import json
import math
import sys


def load(target):
    place, name = target.rsplit(":", 1)
    if place.endswith(".py"):
        spec = importlib.util.spec_from_file_location("reward_file", place)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
    else:
        module = importlib.import_module(place)
    return getattr(module, name)


def split(messages):
    """The prompt, and what the policy said after it."""
    first = next((at for at, message in enumerate(messages) if message["role"] == "assistant"), len(messages))
    return messages[:first], messages[first:]


def score(function, case, text):
    prompt, completion = split(case.get("messages") or [])
    said = case.get("completion")
    if not completion:
        if said is None:
            return {"unscored": "no completion to score"}
        completion = [{"role": "assistant", "content": said}]
        prompt = prompt or [{"role": "user", "content": case.get("question") or ""}]
    if text:
        prompt = "\n".join(message.get("content") or "" for message in prompt)
        completion = said if said is not None else completion[-1].get("content") or ""
    columns = {key: [value] for key, value in case.items() if key not in ("messages", "completion")}
    if case.get("reference"):
        columns = {name: case["reference"][:1] for name in ("answer", "solution", "ground_truth")} | columns
    takes = inspect.signature(function).parameters
    if not any(parameter.kind is parameter.VAR_KEYWORD for parameter in takes.values()):
        columns = {key: value for key, value in columns.items() if key in takes}
    [value] = function(prompts=[prompt], completions=[completion], **columns)
    if value is None or not math.isfinite(value):
        return {"unscored": f"{function.__name__} gave {value}"}
    return {"value": float(value), "why": f"{function.__name__}: {value:g}"}


def main():
    text = "--text" in sys.argv
    function, out = load(sys.argv[1]), sys.stdout
    with contextlib.redirect_stdout(sys.stderr):  # What reward functions print is no answer.
        for line in sys.stdin:
            ask = json.loads(line)
            try:
                answer = score(function, ask["case"], text) if ask.get("op") == "score" else {}
            except Exception as error:
                answer = {"unscored": f"{type(error).__name__}: {error}"}
            print(json.dumps({"id": ask.get("id"), **answer}), file=out, flush=True)


if __name__ == "__main__":
    main()
