"""The Python package's raw-map client under load, told what to do line by line.

    python client.py async    clients on one loop
    python client.py sync     blocking clients, each in a thread: the first three alone

It prints READY when it is, and answers each line of standard input with one of JSON:

    open NAME URL SESSIONS MESSAGE   connects clients
    round NAME SECONDS               steps with all of them for so long
    close NAME                       closes them
    batch URL SESSIONS DIALS WAIT    sessions that begin at once: connect, reset, one step
                                     that waits, or none with "-", close
    hold URL SESSIONS                opens sessions, measures the memory, closes them

A step that has begun is finished, so that a round is longer than its time.
"""

import asyncio
import collections
import json
import os
import sys
import threading
import time

from openenv.core.generic_client import GenericEnvClient


def say(answer):
    print(json.dumps(answer), flush=True)


def memory():
    with open("/proc/self/statm") as statm:
        return int(statm.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def cpu():
    times = os.times()
    return times.user + times.system


async def lines():
    """The lines of standard input, read without holding up the clients."""
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    print("READY", flush=True)
    while line := await reader.readline():
        yield line.decode().strip()


class AsyncClients:
    """One client a session, all on one loop."""

    def __init__(self):
        self.opened = {}

    async def open(self, name, url, sessions, message):
        envs = [GenericEnvClient(base_url=url) for _ in range(int(sessions))]
        for env in envs:
            await env.connect()
            await env.reset()
        self.opened[name] = envs, {"message": message}
        return {}

    async def round(self, name, seconds):
        envs, action = self.opened[name]
        start = time.perf_counter()
        deadline = start + float(seconds)

        async def play(env):
            steps = 0
            while True:
                await env.step(action)
                steps += 1
                if time.perf_counter() >= deadline:
                    return steps

        steps = await asyncio.gather(*map(play, envs))
        return {"steps": sum(steps), "seconds": time.perf_counter() - start}

    async def close(self, name):
        envs, _ = self.opened.pop(name)
        for env in envs:
            await env.close()
        return {}

    async def batch(self, url, sessions, dials, wait):
        gate = asyncio.Semaphore(int(dials))
        totals, failures = [], collections.Counter()
        start, before = time.perf_counter(), cpu()

        async def session():
            env = GenericEnvClient(base_url=url, connect_timeout_s=60, message_timeout_s=60)
            try:
                async with gate:
                    await env.connect()
                await env.reset()
                if wait != "-":
                    await env.step({"wait_s": float(wait)})
                await env.close()
                totals.append(time.perf_counter() - start)
            except Exception as failure:
                failures[type(failure).__name__] += 1
                await env.close()

        await asyncio.gather(*(session() for _ in range(int(sessions))), return_exceptions=True)
        totals.sort()
        return {
            "succeeded": len(totals),
            "seconds": time.perf_counter() - start,
            "total_p99": totals[min(len(totals) - 1, int(0.99 * len(totals)))] if totals else 0,
            "failures": dict(failures),
            "cpu_seconds": cpu() - before,
        }

    async def hold(self, url, sessions):
        before = memory()
        envs = [GenericEnvClient(base_url=url) for _ in range(int(sessions))]
        for env in envs:
            await env.connect()
            await env.reset()
        each = (memory() - before) // len(envs)
        await asyncio.gather(*(env.close() for env in envs))
        return {"memory_per_session": each}

    async def serve(self):
        """Answers lines, which are read without holding up the clients."""
        loop = asyncio.get_running_loop()
        reader = asyncio.StreamReader()
        await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
        print("READY", flush=True)
        while line := await reader.readline():
            command, *words = line.decode().split()
            say(await getattr(self, command)(*words))


class SyncClients:
    """One blocking client a session, each in a thread of its own."""

    def __init__(self):
        self.opened = {}

    def open(self, name, url, sessions, message):
        envs = [GenericEnvClient(base_url=url).sync() for _ in range(int(sessions))]
        for env in envs:
            env.connect()
            env.reset()
        self.opened[name] = envs, {"message": message}
        return {}

    def round(self, name, seconds):
        envs, action = self.opened[name]
        counts = [0] * len(envs)
        start = time.perf_counter()
        deadline = start + float(seconds)

        def play(i, env):
            while True:
                env.step(action)
                counts[i] += 1
                if time.perf_counter() >= deadline:
                    return

        # One client needs no thread but this one.
        threads = [threading.Thread(target=play, args=at) for at in enumerate(envs[1:], 1)]
        for thread in threads:
            thread.start()
        play(0, envs[0])
        for thread in threads:
            thread.join()
        return {"steps": sum(counts), "seconds": time.perf_counter() - start}

    def close(self, name):
        envs, _ = self.opened.pop(name)
        for env in envs:
            env.close()
        return {}

    def serve(self):
        print("READY", flush=True)
        while line := sys.stdin.readline():
            command, *words = line.split()
            say(getattr(self, command)(*words))


def main():
    match sys.argv[1:]:
        case ["async"]:
            asyncio.run(AsyncClients().serve())
        case ["sync"]:
            SyncClients().serve()
        case _:
            sys.exit(__doc__)


main()
