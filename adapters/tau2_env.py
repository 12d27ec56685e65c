"""tau2-bench itself as an environment for Hone: its tasks, tools, user simulator and evaluator, through its own gym interface.

    [env]
    command = ["path/to/venv/bin/python", "tau2_env.py", "telecom", '{"solo_mode": true}']
    variables = ["TAU2_DATA_DIR"]    # and the key of the user simulator's model, where there is one: "OPENAI_API_KEY"

Needs tau2[gym]. The second argument goes to AgentGymEnv: user_llm, user_llm_args, solo_mode, max_steps. A task plays the tau2
task that its `task_id` or its key names; others take one of tau2's own train or test split. Pay it by `env_reward`.
"""
import contextlib, json, sys, threading, zlib
from concurrent.futures import ThreadPoolExecutor
from tau2.gym.gym_agent import AgentGymEnv
from tau2.registry import registry
from tau2.utils.tools import parse_action_string

RULES = "Follow the policy. Call tools, or write to the user. Call done when there is nothing left to do."
BROKEN = {"user_error", "infrastructure_error", "unexpected_error", "timeout"}  # Nothing the agent did.


def ids(domain, side):
    """The ids of a split; of all tasks where the domain has none."""
    splits = registry.get_task_splits_loader(domain)
    return (splits() if splits else {}).get(side) or [task.id for task in registry.get_tasks_loader(domain)()]


class Episode:
    def __init__(self, domain, options, task):
        names = ids(domain, "test" if "-held-out-" in task["key"] else "train")
        drawn = names[zlib.crc32(task["key"].encode()) % len(names)]
        name = task.get("task_id") or (task["key"] if task["key"] in names else drawn)
        self.env = AgentGymEnv(domain=domain, task_id=name, **options)
        self.over, self.value, self.why = False, None, "no end yet"
        self.first, self.about = self.env.reset()

    def open(self, task):
        ticket = self.about["task"].ticket if self.env.solo_mode else None
        said = "\n\n".join(part for part in (task["prompt"], ticket, self.first.removeprefix("user: ")) if part)
        if not said:
            return {"error": f"the simulation ended before the agent's turn: {self.about['simulation_run']}"}
        return {"system": f"{RULES}\n\n{self.about['policy']}", "messages": [{"role": "user", "content": said}],
                "tools": [tool.openai_schema["function"] for tool in self.about["tools"]], "facts": self.facts()}

    def step(self, action):
        text = action.get("text") or ""
        # tau2 would run a reply that reads like a call, past the schema that Hone holds calls to.
        stray = action["kind"] == "reply" and (not text.strip() or parse_action_string(text).tool_calls)
        if stray or action["kind"] == "malformed":
            note = action.get("failure", {}).get("message", "That is no message to the user. Call tools as tools.")
            return {"messages": [{"role": "user", "content": note}], "facts": self.facts()}
        messages, failed = [], 0
        for call in action.get("calls") or [None]:
            said = text if call is None else json.dumps({"name": call["name"], "arguments": call["arguments"]})
            seen, reward, self.over, _, about = self.env.step(said)
            if self.over:
                run = json.loads(about["simulation_run"])
                if run.get("termination_reason", "unexpected_error") in BROKEN:
                    return {"error": f"tau2: {run.get('termination_reason') or 'the simulation broke'}", "transient": True}
                self.value, self.why = reward, f"given: {json.loads(about['reward_info']).get('reward_breakdown')}"
                break
            role, _, content = seen.partition(": ")
            failed += role == "tool" and content.startswith("Error")
            messages.append({"role": role, "content": content} | ({"name": call["name"]} if role == "tool" else {}))
        return {"messages": messages, "done": self.over, "failed": failed, "facts": self.facts()}

    def facts(self):
        return {"env_reward": {"value": self.value, "why": self.why, "ended": self.over}}

    def close(self):
        """Ends the simulation's thread. Nobody wants its evaluation, which may ask a judge."""
        if not self.over:
            self.env._get_reward = lambda: (0.0, "{}")
            self.env.step('{"name": "done", "arguments": {}}')


def main(out):
    options, episodes, lock = json.loads((sys.argv + ["{}"])[2]), {}, threading.Lock()

    def answer(ask):
        try:
            if ask["op"] == "open":
                episodes[ask["episode"]] = Episode(sys.argv[1], options, ask["task"])
            if ask["op"] == "close":
                return episodes.pop(ask["episode"]).close() if ask["episode"] in episodes else None
            episode = episodes.get(ask.get("episode"))
            said = {"open": lambda: episode.open(ask["task"]), "step": lambda: episode.step(ask["action"])}.get(ask["op"], dict)()
        except Exception as error:  # One episode's, not the process's.
            said = {"error": f"{type(error).__name__}: {error}"}
        with lock:
            print(json.dumps({"id": ask["id"], **said}, default=str), file=out, flush=True)

    with ThreadPoolExecutor(64) as threads:  # Users take their time.
        for line in sys.stdin:
            threads.submit(answer, json.loads(line))


if __name__ == "__main__":
    with contextlib.redirect_stdout(sys.stderr):  # What tau2 prints is no answer.
        main(sys.__stdout__)
