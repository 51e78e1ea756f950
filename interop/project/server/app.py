"""The smallest OpenEnv project: it answers with the message it was sent."""

import argparse
import uuid

import uvicorn
from openenv.core.env_server.http_server import create_app
from openenv.core.env_server.interfaces import Environment
from openenv.core.env_server.types import Action, Observation, State


class EchoAction(Action):
    message: str


class EchoObservation(Observation):
    echoed: str
    length: int


class EchoEnvironment(Environment):
    SUPPORTS_CONCURRENT_SESSIONS = True

    def __init__(self):
        super().__init__()
        self._state = State(episode_id=str(uuid.uuid4()))

    def reset(self, seed=None, episode_id=None):
        self._state = State(episode_id=episode_id or str(uuid.uuid4()))
        return EchoObservation(echoed="ready", length=0)

    def step(self, action, timeout_s=None):
        self._state.step_count += 1
        size = len(action.message)
        return EchoObservation(echoed=action.message, length=size, reward=0.1 * size)

    @property
    def state(self):
        return self._state


app = create_app(EchoEnvironment, EchoAction, EchoObservation, max_concurrent_envs=8)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=8000)
    args = parser.parse_args()
    uvicorn.run(app, host=args.host, port=args.port)


if __name__ == "__main__":
    main()
