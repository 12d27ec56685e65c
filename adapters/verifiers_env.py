"""A `verifiers` environment for Hone: it runs its own rollout, and Hone is the model behind its client.

    [env]
    command = ["path/to/venv/bin/python", "verifiers_env.py", "reverse-text"]    # then arguments as JSON: '{"level": 2}'

    [[rubric.component]]
    kind = "env_reward"

Each request of the rollout becomes a turn of the agent; the reward is the rubric's. Training tasks take rows of the
environment's dataset, held-out tasks rows of its evaluation dataset. An environment without tools gets one, `answer`.
"""
import asyncio
import contextlib
import json
import sys
import zlib

import httpx
import verifiers as vf
from openai import AsyncOpenAI

ANSWER = {"name": "answer", "description": "Answer", "parameters": {"type": "object", "required": ["text"],
          "properties": {"text": {"type": "string"}}}}


def row(env, task):
    held_out = "-held-out-" in task["key"] and getattr(env, "eval_dataset", None) is not None
    data = env.get_eval_dataset() if held_out else env.get_dataset()
    return dict(data[zlib.crc32(task["key"].encode()) % len(data)])


class Episode:
    def __init__(self, env, task):
        self.asked, self.said, self.seen = asyncio.Queue(), asyncio.Queue(), 0
        transport = httpx.MockTransport(self.model)
        client = AsyncOpenAI(api_key="none", base_url="http://hone/v1", http_client=httpx.AsyncClient(transport=transport))
        wrap = getattr(vf, "OpenAIChatCompletionsClient", lambda client: client)
        self.rollout = asyncio.ensure_future(env.run_rollout(row(env, task), wrap(client), "hone", {}))

    async def model(self, request):
        """The environment asks for a completion: that is what the agent sees; its reply is the completion."""
        self.asked.put_nowait(json.loads(request.content))
        message = await self.said.get()
        reason = "tool_calls" if message.get("tool_calls") else "stop"
        choice = {"index": 0, "message": message, "finish_reason": reason}
        usage = {"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0}
        return httpx.Response(200, json={"id": "hone", "object": "chat.completion", "created": 0, "model": "hone",
                                         "choices": [choice], "usage": usage})

    async def turn(self):
        """The next request of the environment, or None where its rollout is over."""
        asked = asyncio.ensure_future(self.asked.get())
        await asyncio.wait({asked, self.rollout}, return_when=asyncio.FIRST_COMPLETED)
        if asked.done():
            return asked.result()
        asked.cancel()
        return None

    async def open(self):
        ask = await self.turn()
        if ask is None:
            return {"error": f"the rollout ended before the first turn: {self.rollout.exception() or self.rollout.result()}"}
        messages, self.tools = ask["messages"], [tool["function"] for tool in ask.get("tools") or []]
        self.seen = len(messages)
        system = "\n".join(str(one["content"]) for one in messages if one["role"] == "system")
        return {"system": system, "tools": self.tools or [ANSWER], "messages": [one for one in messages if one["role"] != "system"]}

    async def step(self, action):
        if action["kind"] == "malformed":
            return {"messages": [{"role": "user", "content": action["failure"]["message"]}], "facts": self.facts(False)}
        calls = [] if action["kind"] == "reply" else action["calls"]
        text = action["text"] if action["kind"] == "reply" else None
        if calls and not self.tools:
            text, calls = str(calls[0]["arguments"].get("text", "")), []
        forms = [{"id": f"call_{self.seen}_{at}", "type": "function", "function": {
            "name": call["name"], "arguments": json.dumps(call["arguments"])}} for at, call in enumerate(calls)]
        self.said.put_nowait({"role": "assistant", "content": text, **({"tool_calls": forms} if forms else {})})
        ask = await self.turn()
        if ask is None:
            return {"done": True, "facts": self.facts(True)}
        names = {form["id"]: form["function"]["name"] for form in forms}
        fresh, self.seen = ask["messages"][self.seen + 1:], len(ask["messages"])
        messages = [one | ({"name": names[one["tool_call_id"]]} if one.get("tool_call_id") in names else {}) for one in fresh]
        return {"messages": messages, "facts": self.facts(False)}

    def facts(self, over):
        state = self.rollout.result() if over else {}
        reward, error = state.get("reward"), state.get("error")
        why = f"error: {error}" if error else f"given: {state.get('metrics')}"
        return {"env_reward": {"value": None if error else reward, "why": why, "ended": over}}


async def answer(env, episodes, ask, out):
    try:
        if ask["op"] == "open":
            episodes[ask["episode"]] = Episode(env, ask["task"])
            said = await episodes[ask["episode"]].open()
        else:
            said = await episodes[ask["episode"]].step(ask["action"]) if ask["op"] == "step" else {}
    except Exception as error:
        said = {"error": f"{type(error).__name__}: {error}"}
    print(json.dumps({"id": ask["id"], **said}, default=str), file=out, flush=True)


async def main(out):
    env, episodes, running = vf.load_environment(sys.argv[1], **json.loads((sys.argv + ["{}"])[2])), {}, set()
    while line := await asyncio.to_thread(sys.stdin.readline):
        ask = json.loads(line)
        if ask["op"] == "close":
            if gone := episodes.pop(ask["episode"], None):
                gone.rollout.cancel()
            continue
        running.add(task := asyncio.ensure_future(answer(env, episodes, ask, out)))
        task.add_done_callback(running.discard)


if __name__ == "__main__":
    real = sys.stdout
    with contextlib.redirect_stdout(sys.stderr):
        asyncio.run(main(real))
