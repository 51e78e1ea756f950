"""The Python package's server for the benchmark: the environments of interop/peer,
and two whose step is a coroutine, which the package runs without a thread.

    python peer.py --env wait --max-sessions 4096

It is started and stopped as interop/peer/server.py is.
"""

import asyncio
import pathlib
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "interop" / "peer"))

import server
from openenv.core.env_server.types import Action, Observation


class AsyncEchoEnv(server.EchoEnv):
    """The echo environment, as an author writes it who knows that nothing in it blocks."""

    async def reset_async(self, seed=None, episode_id=None):
        return self.reset(seed, episode_id)

    async def step_async(self, action, timeout_s=None):
        return self.step(action)


class WaitAction(Action):
    wait_s: float


class WaitObservation(Observation):
    waited_s: float = 0


class WaitEnv(server.EchoEnv):
    """A step that takes as long as its action says, and holds no thread meanwhile."""

    async def reset_async(self, seed=None, episode_id=None):
        return WaitObservation()

    async def step_async(self, action, timeout_s=None):
        start = time.monotonic()
        await asyncio.sleep(action.wait_s)
        return WaitObservation(waited_s=time.monotonic() - start)


server.ENVIRONMENTS["echo-async"] = (AsyncEchoEnv, server.EchoAction, server.EchoObservation)
server.ENVIRONMENTS["wait"] = (WaitEnv, WaitAction, WaitObservation)

if __name__ == "__main__":
    sys.exit(server.main())
