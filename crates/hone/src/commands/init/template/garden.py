"""A garden for Hone: look at every plant that is named, and do what it needs.

    python3 garden.py --tasks 600 > tasks.jsonl    makes tasks
    python3 garden.py                              plays episodes: Hone starts it and talks to it over stdin and stdout

Change `TOOLS`, `make_task` and `Garden.call`, and it is an environment of your own. Print to stderr, never to stdout.
"""

import json
import random
import sys

PLANTS = ["basil", "mint", "sage", "thyme", "dill", "chives", "fennel", "parsley",
          "tomato", "pepper", "bean", "pea", "leek", "chard", "carrot", "radish"]
ASKS = ["Please see to the {}.", "Look after the {}.", "Can you take care of the {}?"]
NEEDS = {"dry": "water", "overgrown": "cut", "fine": None}
SYSTEM = "Look at each plant. Water what is dry, cut what is overgrown, leave what is fine. Then say that you are done."


def tool(name, description):
    plant = {"type": "object", "properties": {"plant": {"type": "string"}}, "required": ["plant"]}
    return {"name": name, "description": description, "parameters": plant}


TOOLS = [tool("look", "See how a plant is"), tool("water", "Water a plant"), tool("cut", "Cut a plant back")]


# Tasks: what is asked, the hidden state, a solution, and what a careless gardener would do.

def make_task(number, rng):
    plants = rng.sample(PLANTS, rng.choice([2, 3]))
    garden = {}
    while all(state == "fine" for state in garden.values()):  # what asks for nothing is solved by doing nothing
        garden = {plant: rng.choice(list(NEEDS)) for plant in plants}
    calls = [care(plant, state) for plant, state in garden.items()]
    # Half the time the careless one forgets the last plant. `hone sft` imitates it; `hone train` has something to learn.
    careless = calls[:-1] if rng.random() < 0.5 else calls
    return {"key": f"garden-{number}",
            "prompt": rng.choice(ASKS).format(", ".join(plants[:-1]) + " and " + plants[-1]),
            "garden": garden,
            "reference": sum(calls, []),
            "demonstration": sum(careless, [])}


def care(plant, state):
    names = ["look"] + ([NEEDS[state]] if NEEDS[state] else [])
    return [{"name": name, "arguments": {"plant": plant}} for name in names]


def make_tasks(count):
    rng, prompts, number = random.Random(1), set(), 0
    while number < count:
        task = make_task(number, rng)
        if task["prompt"] not in prompts:  # no held-out task is asked like a training task
            prompts.add(task["prompt"])
            number += 1
            print(json.dumps(task))


# Episodes: one Garden each.

class Garden:
    def __init__(self, task):
        self.state = {plant: "fine" for plant in PLANTS} | task["garden"]
        self.mistakes = 0

    def call(self, name, arguments):
        """The answer of a tool, and whether it is an error."""
        plant = arguments.get("plant")
        if plant not in self.state:
            return f"there is no {plant} here", True
        if name == "look":
            return f"the {plant} is {self.state[plant]}", False
        if NEEDS[self.state[plant]] == name:
            self.state[plant] = "fine"
        else:
            self.mistakes += 1
        return "done", False

    def facts(self):
        """What rewards look at. The verifier: every plant is fine, and nothing was done that was not needed."""
        return {"correct": self.mistakes == 0 and all(state == "fine" for state in self.state.values())}


def step(garden, action):
    if action["kind"] != "calls":  # a reply ends the episode; so does a call that cannot be read
        return {"done": True, "facts": garden.facts()}
    messages, failed = [], 0
    for call in action["calls"]:
        text, error = garden.call(call["name"], call["arguments"])
        messages.append({"role": "tool", "name": call["name"], "content": text})
        failed += error
    return {"messages": messages, "failed": failed, "facts": garden.facts()}


def play():
    gardens = {}
    for line in sys.stdin:
        ask = json.loads(line)
        answer, episode = {}, ask.get("episode")
        if ask["op"] == "open":
            gardens[episode] = Garden(ask["task"])
            user = {"role": "user", "content": ask["task"]["prompt"]}
            answer = {"system": SYSTEM, "tools": TOOLS, "messages": [user]}
        elif ask["op"] == "step":
            answer = step(gardens[episode], ask["action"])
        elif ask["op"] == "close":
            gardens.pop(episode, None)
            continue
        print(json.dumps({"id": ask["id"], **answer}), flush=True)


if __name__ == "__main__":
    make_tasks(int(sys.argv[2])) if sys.argv[1:2] == ["--tasks"] else play()
