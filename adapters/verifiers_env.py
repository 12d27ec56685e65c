"""A `verifiers` (< 0.4) environment for Hone: it runs its own rollout, and Hone is the model behind its client.

    [env]
    command = ["path/to/venv/bin/python", "verifiers_env.py", "reverse-text"]    # then arguments as JSON: '{"level": 2}'

Pay it by the component `env_reward`. Each request of the rollout is a turn of the agent; the reward is the rubric's. Training
tasks take rows of the dataset, held-out tasks of the evaluation dataset, by a hash of the key or by the `row` of a task file.
An environment without tools gets one, `answer`.
"""
import asyncio, contextlib, json, sys, zlib
import httpx
import verifiers as vf
from openai import AsyncOpenAI

ANSWER = {"name": "answer", "description": "Answer", "parameters": {
    "type": "object", "required": ["text"], "properties": {"text": {"type": "string"}}}}


class Episode:
    def __init__(self, env, task):
        self.asked, self.said, self.seen = asyncio.Queue(), asyncio.Queue(), 0
        held_out = "-held-out-" in task["key"] and getattr(env, "eval_dataset", None) is not None
        data = env.get_eval_dataset() if held_out else env.get_dataset()
        row = dict(data[task.get("row", zlib.crc32(task["key"].encode())) % len(data)])
        client = AsyncOpenAI(api_key="none", base_url="http://hone/v1",
                             http_client=httpx.AsyncClient(transport=httpx.MockTransport(self.model)))
        wrap = getattr(vf, "OpenAIChatCompletionsClient", lambda client: client)
        self.rollout = asyncio.ensure_future(env.run_rollout(row, wrap(client), "hone", {}))

    async def model(self, request):
        """The environment asks for a completion: that is what the agent sees. Its reply is the completion."""
        self.asked.put_nowait(json.loads(request.content))
        message = await self.said.get()
        choice = {"index": 0, "message": message, "finish_reason": "tool_calls" if "tool_calls" in message else "stop"}
        usage = {"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0}
        return httpx.Response(200, json={"id": "hone", "object": "chat.completion", "created": 0, "model": "hone",
                                         "choices": [choice], "usage": usage})

    async def turn(self):
        """The next request of the environment, or None where its rollout is over."""
        asked = asyncio.ensure_future(self.asked.get())
        await asyncio.wait({asked, self.rollout}, return_when=asyncio.FIRST_COMPLETED)
        return asked.result() if asked.done() else asked.cancel() and None

    async def open(self):
        if (ask := await self.turn()) is None:
            return {"error": f"the rollout ended before the first turn: {dict(self.rollout.result())}"}
        messages, self.tools, self.seen = ask["messages"], [one["function"] for one in ask.get("tools") or []], len(ask["messages"])
        system = "\n".join(str(one["content"]) for one in messages if one["role"] == "system")
        return {"system": system, "tools": self.tools or [ANSWER], "facts": self.facts({}, False),
                "messages": [one for one in messages if one["role"] != "system"]}

    async def step(self, action):
        if action["kind"] == "malformed":
            return {"messages": [{"role": "user", "content": action["failure"]["message"]}], "facts": self.facts({}, False)}
        text, calls = action.get("text"), action.get("calls", [])
        if calls and not self.tools:
            text, calls = str(calls[0]["arguments"].get("text", "")), []
        forms = [{"id": f"call_{self.seen}_{at}", "type": "function", "function": {
            "name": call["name"], "arguments": json.dumps(call["arguments"])}} for at, call in enumerate(calls)]
        self.said.put_nowait({"role": "assistant", "content": text, **({"tool_calls": forms} if forms else {})})
        if (ask := await self.turn()) is None:
            return {"done": True, "facts": self.facts(self.rollout.result(), True)}
        names = {form["id"]: form["function"]["name"] for form in forms}
        fresh, self.seen = ask["messages"][self.seen + 1:], len(ask["messages"])
        return {"messages": [one | {"name": names.get(one.get("tool_call_id"))} if one["role"] == "tool" else one for one in fresh],
                "facts": self.facts({}, False)}

    def facts(self, state, over):
        why = f"error: {error}" if (error := state.get("error")) else f"given: {state.get('metrics')}"
        return {"env_reward": {"value": None if error else state.get("reward"), "why": why, "ended": over}}


async def main(out):
    env, episodes, running = vf.load_environment(sys.argv[1], **json.loads((sys.argv + ["{}"])[2])), {}, set()

    async def answer(ask):
        try:
            if ask["op"] == "open":
                episodes[ask["episode"]] = Episode(env, ask["task"])
            episode = episodes.get(ask.get("episode"))
            said = await {"open": lambda: episode.open(), "step": lambda: episode.step(ask["action"])}[ask["op"]]()
        except Exception as error:  # One episode's, not the process's.
            said = {"error": f"{type(error).__name__}: {error}"}
        print(json.dumps({"id": ask["id"], **said}, default=str), file=out, flush=True)

    while line := await asyncio.to_thread(sys.stdin.readline):
        ask = json.loads(line)
        if ask["op"] != "close":
            running.add(task := asyncio.ensure_future(answer(ask)))
            task.add_done_callback(running.discard)
        elif gone := episodes.pop(ask["episode"], None):
            gone.rollout.cancel()


if __name__ == "__main__":
    real = sys.stdout
    with contextlib.redirect_stdout(sys.stderr):
        asyncio.run(main(real))
