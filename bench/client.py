"""Steps an echo environment with the async client of the Python package.

Each line of standard input is a number of seconds; the answer is the number of
steps made in that time, scaled to it.
"""

import asyncio
import sys
import time

from openenv.core.generic_client import GenericEnvClient


async def main(url: str, size: int) -> None:
    loop = asyncio.get_running_loop()
    async with GenericEnvClient(base_url=url) as env:
        await env.reset()
        action = {"message": "x" * size}
        while line := await loop.run_in_executor(None, sys.stdin.readline):
            seconds = float(line)
            steps, start = 0, time.perf_counter()
            while (spent := time.perf_counter() - start) < seconds:
                for _ in range(16):
                    await env.step(action)
                steps += 16
            print(max(1, round(steps * seconds / spent)), flush=True)


asyncio.run(main(sys.argv[1], int(sys.argv[2])))
