"""500 streams at once for minutes, with clients that go and clients that dawdle.

    python3 stress.py PATH_TO_QUIRE [--model smollm2-135m-instruct] [--seconds 180]
        [--streams 500] [--kv-size 384MiB]

One in ten streams is dropped after a random number of pieces, one in twenty is read slowly. Asked of
the server: no error, every stream whole, no block used in the end, memory without the KV arena the
same from the first minute to the third within 2 %, the arena within its budget, and a sample of
the answers equal to those computed alone in an empty cache.

Standard library alone. Exit code 0 = all of it held, 77 = the model is not here.
"""

import argparse
import asyncio
import json
import pathlib
import random
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "support"))

import serve_process  # noqa: E402

DROPPED = 0.10
SLOW = 0.05
LONGEST_STREAM_S = 150
WORDS = ("river mill stone bridge harbour lantern winter orchard copper violin market letter "
         "mountain signal garden engine thread window paper island").split()


class Load:
    def __init__(self, args, server):
        self.args, self.server = args, server
        self.random = random.Random(args.seed)
        self.whole = self.dropped = self.tokens = 0
        self.errors = []
        self.samples = []
        self.memory = []  # (seconds, anonymous bytes without the arena, committed bytes)
        self.running = 0

    def body(self):
        """A chat with one of a few system prompts, and its own question."""
        system = " ".join(WORDS[self.random.randrange(8):] * 6)
        question = " ".join(self.random.choices(WORDS, k=self.random.randint(4, 40)))
        return {"messages": [{"role": "system", "content": system},
                             {"role": "user", "content": question}],
                "max_tokens": self.random.randint(8, 48), "temperature": 0.8,
                "seed": self.random.randrange(1 << 30), "stream": True, "ignore_eos": True}

    async def open(self, body):
        reader, writer = await asyncio.open_connection("127.0.0.1", self.server.port)
        data = json.dumps(body).encode()
        writer.write(b"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nConnection: close\r\n"
                     b"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(data)
                     + data)
        head = await reader.readuntil(b"\r\n\r\n")
        if b" 200 " not in head[:16]:
            raise AssertionError(f"{head!r} {await reader.read(2000)!r}")
        return reader, writer

    async def one(self):
        body = self.body()
        leaves_after = self.random.randint(0, 20) if self.random.random() < DROPPED else None
        pause = self.random.uniform(0.05, 0.3) if self.random.random() < SLOW else 0
        reader, writer = await self.open(body)
        text, reason, pieces = "", None, 0
        try:
            async for line in reader:
                if not line.startswith(b"data: "):
                    continue
                if line.strip() == b"data: [DONE]":
                    break
                if leaves_after is not None and pieces >= leaves_after:
                    self.dropped += 1
                    return
                event = json.loads(line[6:])
                if "error" in event:
                    raise AssertionError(f"an error in a stream: {event}")
                choice = event["choices"][0]
                text += choice["delta"].get("content") or ""
                reason = choice["finish_reason"] or reason
                pieces += 1
                if pause:
                    await asyncio.sleep(pause)
            else:
                raise AssertionError(f"a stream ended after {pieces} pieces without [DONE]")
            if reason != "length":
                raise AssertionError(f"finish_reason {reason}")
            self.whole += 1
            self.tokens += body["max_tokens"]
            if len(self.samples) < self.args.samples and self.random.random() < 0.2:
                self.samples.append((body, text))
        finally:
            writer.close()

    async def client(self, end):
        while time.monotonic() < end:
            try:
                await asyncio.wait_for(self.one(), LONGEST_STREAM_S)
            except (AssertionError, OSError, EOFError, ValueError, TimeoutError) as error:
                self.errors.append(repr(error))
                if len(self.errors) > 20:
                    return

    async def watch(self, start, end):
        while time.monotonic() < end:
            await asyncio.sleep(1)
            values = await asyncio.to_thread(self.server.metrics)
            committed = values["quire_kv_committed_bytes"]
            self.running = max(self.running, values["vllm:num_requests_running"]
                               + values["vllm:num_requests_waiting"])
            self.memory.append((time.monotonic() - start,
                                self.server.status_bytes("RssAnon") - committed, committed))

    async def run(self):
        start = time.monotonic()
        end = start + self.args.seconds
        await asyncio.gather(self.watch(start, end),
                             *(self.client(end) for _ in range(self.args.streams)))

    async def differing(self):
        """How many of the sampled answers are not what the request gets alone."""
        count = 0
        for number, (body, text) in enumerate(self.samples):
            reader, writer = await self.open(body | {"cache_salt": f"alone {number}"})
            alone = ""
            async for line in reader:
                if line.startswith(b"data: {"):
                    alone += json.loads(line[6:])["choices"][0]["delta"].get("content") or ""
            writer.close()
            count += alone != text
        return count


def mean_between(memory, first, last):
    values = [anonymous for seconds, anonymous, _ in memory if first <= seconds <= last]
    return sum(values) / len(values)


def check(load, args, server):
    faults = list(load.errors)
    try:
        for name in ("vllm:num_requests_running", "vllm:num_requests_waiting",
                     "quire_kv_used_bytes"):
            server.wait_for_metric(name, 0, timeout=30)
    except AssertionError as error:
        faults.append(str(error))
    third = args.seconds / 3
    first = mean_between(load.memory, third * 0.75, third * 1.25)
    last = mean_between(load.memory, args.seconds - third / 2, args.seconds)
    growth = last / first - 1
    print(f"memory without the arena: {first / 1e6:.1f} MB after a third, {last / 1e6:.1f} MB in "
          f"the end, {100 * growth:+.2f} %")
    if growth > 0.02:
        faults.append(f"memory grew by {100 * growth:.1f} %")
    committed = max(committed for _, _, committed in load.memory)
    pool = server.metrics()["quire_kv_pool_bytes"]
    print(f"arena: {committed / 1e6:.1f} MB committed at most, {pool / 1e6:.1f} MB allowed")
    # Committed in huge pages.
    if committed > pool + (2 << 20):
        faults.append("the arena is beyond its budget")
    differing = asyncio.run(load.differing())
    print(f"answers compared with those computed alone: {len(load.samples)}, differing {differing}")
    if differing or len(load.samples) < args.samples:
        faults.append(f"{differing} of {len(load.samples)} answers differ from those alone")
    if server.process.poll() is not None:
        faults.append(f"the server ended: {server.process.returncode}")
    return faults


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("quire")
    parser.add_argument("--model", default="smollm2-135m-instruct")
    parser.add_argument("--seconds", type=float, default=180)
    parser.add_argument("--streams", type=int, default=500)
    parser.add_argument("--samples", type=int, default=50)
    parser.add_argument("--kv-size", default="384MiB")
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    if not serve_process.model_is_here(args.model):
        print(f"{args.model} is not in the model cache")
        sys.exit(77)
    sys.stdout.reconfigure(line_buffering=True)
    with serve_process.ServeProcess(args.quire, args.model, "--kv-size", args.kv_size, "-c", 2048,
                                    "--log-level", "warning") as server:
        load = Load(args, server)
        asyncio.run(load.run())
        print(f"{load.whole} streams whole, {load.dropped} dropped by their clients, "
              f"{load.tokens / args.seconds:.0f} tokens a second, at most {load.running:.0f} "
              f"requests at once, {len(load.errors)} errors")
        faults = check(load, args, server)
        for fault in faults[:20]:
            print("FAULT:", fault)
    sys.exit(1 if faults else 0)


if __name__ == "__main__":
    main()
