"""Environments on the published Python package, for the interop tests.

    python server.py --env echo --port 0 --max-sessions 64

prints one line, LISTENING <port>, once it accepts connections, and then serves
until SIGTERM. Exit status 2 means bad arguments.
"""

import argparse
import os
import socket
import sys
import threading
import time
import uuid
from typing import Any, Dict, List, Literal, Optional

import uvicorn
from fastmcp import FastMCP
from openenv.core.env_server.http_server import create_app
from openenv.core.env_server.interfaces import Environment
from openenv.core.env_server.mcp_environment import MCPEnvironment
from openenv.core.env_server.mcp_types import CallToolAction, CallToolObservation
from openenv.core.env_server.types import Action, Observation, State
from pydantic import BaseModel, ConfigDict, Field


class EchoAction(Action):
    message: str


class EchoObservation(Observation):
    echoed: str
    length: int


class EchoEnv(Environment):
    """Answers with the message and 0.1 of reward per character.

    Some messages ask for more:

        sleep:<seconds>   answers after that time
        big:<bytes>       echoes that many "x"
        boom              raises RuntimeError("boom"); the step counts
        done              ends the episode
        meta              adds the metadata {"a": 1}
        nan               is worth NaN
    """

    SUPPORTS_CONCURRENT_SESSIONS = True

    def __init__(self):
        super().__init__()
        self._state = State(episode_id=str(uuid.uuid4()))

    # No **kwargs: the package drops the reset parameters that are not named here.
    def reset(self, seed=None, episode_id=None):
        self._state = State(episode_id=episode_id or str(uuid.uuid4()))
        return EchoObservation(echoed="ready", length=0)

    def step(self, action, timeout_s=None):
        self._state.step_count += 1
        echoed, done, metadata, reward = action.message, False, {}, None
        match action.message.partition(":"):
            case ("sleep", ":", seconds):
                time.sleep(float(seconds))
            case ("big", ":", size):
                echoed = "x" * int(size)
            case ("boom", "", _):
                raise RuntimeError("boom")
            case ("done", "", _):
                done = True
            case ("meta", "", _):
                metadata = {"a": 1}
            case ("nan", "", _):
                reward = float("nan")
        if reward is None:
            reward = 0.1 * len(echoed)
        return EchoObservation(
            echoed=echoed,
            length=len(echoed),
            reward=reward,
            done=done,
            metadata=metadata,
        )

    @property
    def state(self):
        return self._state


class SoloEnv(EchoEnv):
    """The echo environment, for one session at a time, and not quick to close.

    Who opens a session before the one before is gone is refused, every time.
    """

    SUPPORTS_CONCURRENT_SESSIONS = False

    def close(self):
        time.sleep(0.03)


class FailingEnv(EchoEnv):
    """An environment that cannot be made."""

    def __init__(self):
        raise RuntimeError("the environment cannot be made")


class ToolEnv(MCPEnvironment):
    """Two MCP tools: one adds, one fails."""

    SUPPORTS_CONCURRENT_SESSIONS = True

    def __init__(self):
        tools = FastMCP("tools")

        @tools.tool
        def add(a: int, b: int) -> int:
            """Add two integers."""
            return a + b

        @tools.tool
        def fail(why: str) -> str:
            """Always fails."""
            raise RuntimeError(why)

        super().__init__(tools)
        self._state = State(episode_id=str(uuid.uuid4()))

    def reset(self, seed=None, episode_id=None):
        self._state = State(episode_id=episode_id or str(uuid.uuid4()))
        return Observation(metadata={"status": "ready"})

    def _step_impl(self, action, timeout_s=None, **kwargs):
        raise ValueError(f"not a tool action: {type(action).__name__}")

    @property
    def state(self):
        return self._state


class Point(BaseModel):
    model_config = ConfigDict(extra="forbid")

    x: int
    label: Optional[str] = None


class RichAction(Action):
    """A field of every kind."""

    text: str
    count: int
    ratio: float
    flag: bool
    note: Optional[str] = None
    limit: Optional[int] = None
    point: Optional[Point] = None
    points: List[Point] = []
    scores: Dict[str, int] = {}
    small: int = Field(default=0, ge=-128, le=127)
    size: int = Field(default=0, ge=0)
    move: Literal["up", "down", "left"] = "up"
    tags: List[str] = []
    pair: List[float] = Field(default=[0, 0], min_length=2, max_length=2)
    code: str = Field(default="ab", min_length=2, max_length=3, pattern="^a")
    anything: Any = None


class RichObservation(Observation):
    seen: Dict[str, Any]


class RichEnv(EchoEnv):
    """Answers with the action as it was understood, and offers tasks."""

    TASKS = {"train": [{"n": 0}, {"n": 1}, {"n": 2}], "hard": []}

    def reset(self, seed=None, episode_id=None):
        return RichObservation(seen={})

    def step(self, action, timeout_s=None):
        return RichObservation(seen=action.model_dump())

    def list_splits(self):
        return ["train", {"name": "hard", "type": "test"}]

    def list_tasks(self, split):
        return self.TASKS[split]

    def num_tasks(self, split):
        return len(self.TASKS[split])

    def get_task(self, split, index):
        return self.TASKS[split][index]

    def get_task_range(self, split, start=None, stop=None):
        return self.TASKS[split][start:stop]


class LedgerAction(Action):
    id: int
    op: Literal["move", "bad"]


class LedgerObservation(Observation):
    id: int
    total: int


class Ledger:
    """What was applied, by episode; the route /ledger shows it."""

    def __init__(self):
        self._lock = threading.Lock()
        self._episodes = {}

    def _episode(self, episode_id):
        return self._episodes.setdefault(episode_id, {"resets": 0, "steps": []})

    def reset(self, episode_id):
        with self._lock:
            self._episode(episode_id)["resets"] += 1

    def step(self, episode_id, action_id):
        with self._lock:
            self._episode(episode_id)["steps"].append(action_id)

    def copy(self):
        with self._lock:
            return {
                episode_id: {"resets": e["resets"], "steps": list(e["steps"])}
                for episode_id, e in self._episodes.items()
            }


LEDGER = Ledger()


class LedgerEnv(Environment):
    """Answers with the action's id, enters it in the ledger, and counts one."""

    SUPPORTS_CONCURRENT_SESSIONS = True
    COUNTS = 1

    def __init__(self):
        super().__init__()
        self._begin(None)

    def _begin(self, episode_id):
        self._state = State(episode_id=episode_id or str(uuid.uuid4()))
        self._total = 0

    def reset(self, seed=None, episode_id=None):
        self._begin(episode_id)
        LEDGER.reset(self._state.episode_id)
        return LedgerObservation(id=-1, total=0)

    def step(self, action, timeout_s=None):
        self._total += 1
        self._state.step_count += self.COUNTS
        LEDGER.step(self._state.episode_id, action.id)
        return LedgerObservation(id=action.id, total=self._total)

    @property
    def state(self):
        return self._state


class RejectingLedgerEnv(LedgerEnv):
    """Fails a bad action, which it neither applies nor counts."""

    def step(self, action, timeout_s=None):
        if action.op == "bad":
            raise ValueError(f"action {action.id} is rejected")
        return super().step(action, timeout_s)


class TwoLedgerEnv(LedgerEnv):
    """Counts two for each step, as with an opponent's move."""

    COUNTS = 2


class UncountedLedgerEnv(LedgerEnv):
    """Its state has no step_count."""

    @property
    def state(self):
        return {"episode_id": self._state.episode_id}


ENVIRONMENTS = {
    "echo": (EchoEnv, EchoAction, EchoObservation),
    "solo": (SoloEnv, EchoAction, EchoObservation),
    "failing": (FailingEnv, EchoAction, EchoObservation),
    "rich": (RichEnv, RichAction, RichObservation),
    "mcp": (ToolEnv, CallToolAction, CallToolObservation),
    "ledger": (LedgerEnv, LedgerAction, LedgerObservation),
    "ledger-reject": (RejectingLedgerEnv, LedgerAction, LedgerObservation),
    "ledger-two": (TwoLedgerEnv, LedgerAction, LedgerObservation),
    "ledger-nocount": (UncountedLedgerEnv, LedgerAction, LedgerObservation),
}


class Server(uvicorn.Server):
    """Says where it listens, when it does."""

    async def startup(self, sockets=None):
        await super().startup(sockets=sockets)
        if self.started:
            port = sockets[0].getsockname()[1]
            print(f"LISTENING {port}", flush=True)


def exit_with_stdin():
    # The other end is held by the parent process: end of file means that it is
    # gone, however it went. Not sys.stdin, whose lock would be held at exit.
    while os.read(0, 4096):
        pass
    os._exit(1)


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--env", choices=sorted(ENVIRONMENTS), default="echo")
    parser.add_argument("--port", type=int, default=0, help="0: any free port")
    parser.add_argument("--max-sessions", type=int, default=1)
    parser.add_argument("--mode", choices=["simulation", "production"], default="simulation")
    parser.add_argument("--ping-interval", type=float, default=20.0, help="seconds, 0: none")
    parser.add_argument("--ping-timeout", type=float, default=20.0, help="seconds, 0: none")
    parser.add_argument(
        "--ws-max-size",
        type=int,
        default=128 << 20,
        help="largest incoming WebSocket message in bytes (uvicorn's own default: 16 MiB)",
    )
    parser.add_argument(
        "--exit-with-stdin",
        action="store_true",
        help="exit when standard input ends",
    )
    return parser.parse_args()


def main():
    args = parse_arguments()
    environment, action, observation = ENVIRONMENTS[args.env]
    app = create_app(
        environment,
        action,
        observation,
        max_concurrent_envs=args.max_sessions,
        mode=args.mode,
    )
    if args.env.startswith("ledger"):
        app.get("/ledger")(LEDGER.copy)
    if args.exit_with_stdin:
        threading.Thread(target=exit_with_stdin, daemon=True).start()
    config = uvicorn.Config(
        app,
        log_level="warning",
        ws_max_size=args.ws_max_size,
        ws_ping_interval=args.ping_interval or None,
        ws_ping_timeout=args.ping_timeout or None,
        # A step that sleeps must not hold up the end.
        timeout_graceful_shutdown=1,
    )
    # The protocol by number, as uvicorn's own sockets have it: asyncio switches
    # Nagle's algorithm off for these only, and each HTTP answer would wait 40 ms.
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP) as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(("127.0.0.1", args.port))
        # Tests open many sessions at once.
        listener.listen(1024)
        Server(config).run(sockets=[listener])


if __name__ == "__main__":
    sys.exit(main())
