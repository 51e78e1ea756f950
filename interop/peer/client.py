"""The published Python package's clients against a server of the echo environment.

    python client.py http://127.0.0.1:8000 http://127.0.0.1:8001 [SCENARIO...]

The first server takes at least 64 sessions, the second one. Each scenario, all of them
without a name, prints one line of JSON: {"scenario": name, "result": …}, or "error" with a traceback in place of
the result. Exit status 1 means that a scenario failed, 2 bad arguments.
"""

import argparse
import asyncio
import dataclasses
import json
import sys
import traceback

from openenv.core import EnvClient, GenericEnvClient
from openenv.core.client_types import StepResult
from openenv.core.env_server.types import Action, Observation, State


class EchoAction(Action):
    message: str


class EchoObservation(Observation):
    echoed: str
    length: int


class EchoClient(EnvClient[EchoAction, EchoObservation, State]):
    """A client as an environment's author writes it."""

    def _step_payload(self, action):
        return action.model_dump()

    def _parse_result(self, payload):
        observation = EchoObservation(
            **payload["observation"],
            reward=payload.get("reward"),
            done=payload.get("done", False),
        )
        return StepResult(
            observation=observation,
            reward=payload.get("reward"),
            done=payload.get("done", False),
        )

    def _parse_state(self, payload):
        return State(**payload)


def plain(result):
    """A step result as JSON has it."""
    if isinstance(result.observation, Observation):
        observation = result.observation.model_dump()
        result = dataclasses.replace(result, observation=observation)
    return dataclasses.asdict(result)


async def generic_async(url, _):
    async with GenericEnvClient(base_url=url) as env:
        reset = await env.reset(seed=7, episode_id="e-1", unknown=True)
        step = await env.step({"message": "héllo 😀"})
        return {"reset": plain(reset), "step": plain(step), "state": await env.state()}


def generic_sync(url, _):
    with GenericEnvClient(base_url=url).sync() as env:
        reset = env.reset(episode_id="e-2")
        step = env.step({"message": "hi"})
        return {"reset": plain(reset), "step": plain(step), "state": env.state()}


def generic_bare(url, _):
    """Neither awaited nor wrapped: the client finds out that no loop is running."""
    env = GenericEnvClient(base_url=url)
    try:
        env.reset(episode_id="e-3")
        return {"step": plain(env.step({"message": "hi"})), "state": env.state()}
    finally:
        env.close()


async def typed(url, _):
    async with EchoClient(base_url=url) as env:
        reset = await env.reset(episode_id="e-4")
        step = await env.step(EchoAction(message="hi", metadata={"from": "an agent"}))
        state = await env.state()
        return {"reset": plain(reset), "step": plain(step), "state": state.model_dump()}


async def new_session(url, _):
    async with GenericEnvClient(base_url=url) as parent:
        await parent.reset(episode_id="parent")
        children = await asyncio.gather(*(parent.new_session() for _ in range(3)))
        for i, child in enumerate(children):
            await child.reset(episode_id=f"child-{i}")
            for _ in range(i + 1):
                await child.step({"message": "hi"})
        return [await env.state() for env in (parent, *children)]


async def gather(url, _):
    async def episode(i):
        async with GenericEnvClient(base_url=url) as env:
            await env.reset(episode_id=f"g-{i}")
            echoed = [
                (await env.step({"message": f"{i}/{n}"})).observation["echoed"]
                for n in range(5)
            ]
            right = echoed == [f"{i}/{n}" for n in range(5)]
            return {"state": await env.state(), "right": right}

    return await asyncio.gather(*(episode(i) for i in range(64)))


async def large(url, _):
    async with GenericEnvClient(base_url=url) as env:
        await env.reset()
        message = "x" * (8 << 20)
        result = await env.step({"message": message})
        return {"same": result.observation["echoed"] == message}


async def message_of(call):
    try:
        await call
    except RuntimeError as e:
        return str(e)
    return None


async def capacity(_, url):
    first, second = GenericEnvClient(base_url=url), GenericEnvClient(base_url=url)
    async with first:
        await first.reset()
        refused = await message_of(second.reset())
    try:
        await second.reset()
        return {"refused": refused, "afterwards": plain(await second.step({"message": "hi"}))}
    finally:
        await second.close()


async def validation(url, _):
    async with GenericEnvClient(base_url=url) as env:
        await env.reset()
        return {
            "unknown field": await message_of(env.step({"msg": "hi"})),
            "wrong type": await message_of(env.step({"message": 5})),
            "afterwards": plain(await env.step({"message": "hi"})),
        }


SCENARIOS = [
    generic_async,
    generic_sync,
    generic_bare,
    typed,
    new_session,
    gather,
    large,
    capacity,
    validation,
]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("url")
    parser.add_argument("solo_url")
    parser.add_argument("scenarios", nargs="*")
    args = parser.parse_args()
    status = 0
    for scenario in SCENARIOS:
        if args.scenarios and scenario.__name__ not in args.scenarios:
            continue
        line = {"scenario": scenario.__name__}
        try:
            result = scenario(args.url, args.solo_url)
            if asyncio.iscoroutine(result):
                result = asyncio.run(result)
            line["result"] = result
        except Exception:
            line["error"] = traceback.format_exc()
            status = 1
        print(json.dumps(line), flush=True)
    return status


if __name__ == "__main__":
    sys.exit(main())
