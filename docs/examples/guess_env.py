# An environment for Hone: guess a number between 1 and 100. Run by `env = { command = ["python3", "guess_env.py"] }`.
import json, random, sys

TOOL = {"name": "guess", "description": "Guess the number", "parameters": {"type": "object",
        "properties": {"n": {"type": "integer"}}, "required": ["n"]}}
episodes = {}

for line in sys.stdin:
    ask = json.loads(line)
    answer, episode = {"id": ask.get("id")}, ask.get("episode")
    if ask["op"] == "open":
        episodes[episode] = random.Random(ask["task"]["key"]).randint(1, 100)
        answer |= {"system": "Guess the number.", "tools": [TOOL], "messages": [{"role": "user", "content": ask["task"]["prompt"]}]}
    elif ask["op"] == "step" and ask["action"]["kind"] == "calls":
        n, secret = ask["action"]["calls"][0]["arguments"].get("n"), episodes[episode]
        said = "right" if n == secret else "higher" if isinstance(n, int) and n < secret else "lower"
        answer |= {"messages": [{"role": "tool", "name": "guess", "content": said}], "done": said == "right", "facts": {"correct": said == "right"}}
    elif ask["op"] == "step":  # a reply, or a call that could not be read
        answer |= {"messages": [{"role": "user", "content": "Please call guess."}]}
    elif ask["op"] == "close":  # the episode is over: forget it, answer nothing
        episodes.pop(episode, None)
        continue
    print(json.dumps(answer), flush=True)
