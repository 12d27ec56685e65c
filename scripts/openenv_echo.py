"""The official OpenEnv server with an environment that echoes, at a free port. Prints its address.

Arguments: sessions at once, then `typed` for an environment with an action class of its own instead of MCP tools.
Needs the packages openenv and uvicorn. A peer for `hone bench serve` and scripts/openenv.py.
"""
import socket
import sys
import uuid

import uvicorn
from openenv.core.env_server.http_server import create_app
from openenv.core.env_server.interfaces import Environment
from openenv.core.env_server.types import Action, Observation, State

SESSIONS = int(sys.argv[1]) if len(sys.argv) > 1 else 1
TYPED = len(sys.argv) > 2 and sys.argv[2] == "typed"


class SayAction(Action):
    text: str


class SayObservation(Observation):
    heard: str = ""


class Typed(Environment):
    """Two turns; the reward is 1 where the last text is "hi"."""

    SUPPORTS_CONCURRENT_SESSIONS = True

    def __init__(self):
        super().__init__()
        self._state = State(episode_id=str(uuid.uuid4()), step_count=0)

    def reset(self, seed=None, episode_id=None, **_):
        self._state = State(episode_id=episode_id or str(uuid.uuid4()), step_count=0)
        return SayObservation(heard=f"seed {seed}", done=False, reward=0.0)

    def step(self, action, timeout_s=None, **_):
        if action.text == "boom":
            raise ValueError("boom happened")
        self._state.step_count += 1
        done = self._state.step_count >= 2
        return SayObservation(heard=action.text, done=done, reward=float(action.text == "hi") if done else None)

    @property
    def state(self):
        return self._state


def echo():
    from fastmcp import FastMCP
    from openenv.core.env_server.mcp_environment import MCPEnvironment
    from openenv.core.env_server.mcp_types import CallToolAction, CallToolObservation

    class Echo(MCPEnvironment):
        SUPPORTS_CONCURRENT_SESSIONS = True

        def __init__(self):
            server = FastMCP("echo")

            @server.tool
            def echo_message(message: str) -> str:
                """Say it again."""
                return message

            super().__init__(server)
            self._state = State(episode_id=str(uuid.uuid4()), step_count=0)

        def reset(self, seed=None, episode_id=None, **_):
            self._state = State(episode_id=episode_id or str(uuid.uuid4()), step_count=0)
            return Observation(done=False, reward=0.0, metadata={"status": "ready"})

        def _step_impl(self, action, timeout_s=None, **_):
            raise ValueError(f"no such action: {action}")

        @property
        def state(self):
            return self._state

    return Echo, CallToolAction, CallToolObservation


if __name__ == "__main__":
    kind = (Typed, SayAction, SayObservation) if TYPED else echo()
    app = create_app(*kind, env_name="echo_env", max_concurrent_envs=SESSIONS)
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    listener.listen(1024)
    print(f"http://127.0.0.1:{listener.getsockname()[1]}", flush=True)
    uvicorn.Server(uvicorn.Config(app, log_level="error")).run(sockets=[listener])
