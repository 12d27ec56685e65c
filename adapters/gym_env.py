"""A Gymnasium-like text environment for Hone: reset(seed=...) and step(text), observations as text.

    [env]
    command = ["path/to/venv/bin/python", "gym_env.py", "my_module:make"]    # or a registered id: "FrozenLake-v1"

    [[rubric.component]]
    kind = "env_reward"

The target is MODULE:FACTORY (called without arguments) or an id for gymnasium.make. The agent has one tool, `act`. Where the
action space is Discrete, its text is the number; otherwise the environment gets the text itself.
"""
import contextlib
import importlib
import json
import sys
import zlib

SYSTEM = "You act in an environment. Call act once a turn; each answer is what you see next."


def make(target):
    if ":" in target:
        module, name = target.split(":", 1)
        sys.path.insert(0, "")
        return getattr(importlib.import_module(module), name)()
    import gymnasium

    return gymnasium.make(target)


def actions(env):
    """The number of actions of a Discrete space; None: the environment takes text."""
    return getattr(getattr(env, "action_space", None), "n", None)


def tool(env):
    count = actions(env)
    about = "The action, as text" if count is None else f"The action, a number from 0 to {count - 1}"
    kind = {"type": "string"} if count is None else {"type": "integer", "minimum": 0, "maximum": int(count) - 1}
    schema = {"type": "object", "properties": {"action": kind | {"description": about}}, "required": ["action"]}
    return {"name": "act", "description": "Act in the environment", "parameters": schema}


class Episode:
    def __init__(self, target, task):
        self.env, self.total, self.over = make(target), 0.0, False
        # Episodes of one task start alike: the seed is the task's, not the episode's.
        seed = task.get("reset", {}).get("seed", zlib.crc32(task["key"].encode()))
        self.first = str(self.env.reset(seed=seed)[0])

    def open(self, task):
        said = "\n\n".join(part for part in (task["prompt"], self.first) if part)
        messages = [{"role": "user", "content": said}]
        return {"system": SYSTEM, "tools": [tool(self.env)], "messages": messages, "facts": self.facts()}

    def step(self, action):
        if action["kind"] != "calls":
            note = action.get("failure", {}).get("message", "Call act.")
            return {"messages": [{"role": "user", "content": note}], "facts": self.facts()}
        messages = []
        for call in action["calls"]:
            seen, reward, ended, cut, _ = self.env.step(call["arguments"]["action"])
            self.total, self.over = self.total + float(reward), bool(ended or cut)
            messages.append({"role": "tool", "name": "act", "content": str(seen)})
            if self.over:
                break
        return {"messages": messages, "done": self.over, "facts": self.facts()}

    def facts(self):
        why = f"given: {self.total:g} over the episode"
        return {"env_reward": {"value": self.total if self.over else None, "why": why, "ended": self.over}}


def main():
    episodes, out = {}, sys.stdout
    with contextlib.redirect_stdout(sys.stderr):  # What environments print is no answer.
        for line in sys.stdin:
            ask = json.loads(line)
            op, key = ask["op"], ask.get("episode")
            if op == "close":
                if gone := episodes.pop(key, None):
                    with contextlib.suppress(Exception):  # No answer is due.
                        getattr(gone.env, "close", lambda: None)()
                continue
            try:
                if op == "open":
                    episodes[key] = Episode(sys.argv[1], ask["task"])
                    answer = episodes[key].open(ask["task"])
                elif op == "step":
                    answer = episodes[key].step(ask["action"])
                else:
                    answer = {}
            except Exception as error:  # One episode's, not the process's.
                answer = {"error": f"{type(error).__name__}: {error}"}
            print(json.dumps({"id": ask["id"], **answer}), file=out, flush=True)


if __name__ == "__main__":
    main()
