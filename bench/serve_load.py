"""Conversations with an OpenAI-compatible server, over streams, and what they took.

Conversations are made from a seed: a system prompt that all share, then turns whose lengths follow
lognormal distributions with the means of the ShareGPT conversations, shortened by a factor. A client
holds one conversation at a time and sends the whole history with each turn, as chat clients do.

Standard library alone: asyncio and HTTP/1.1 by hand, so that the load costs the machine little.
"""

import asyncio
import dataclasses
import json
import math
import random
import statistics
import time

# Words of one token in common vocabularies, so that lengths in words are lengths in tokens.
WORDS = ("the of and to in is that it was for on are as with his they at be this from have or by one "
         "had not but what all were when we there can an your which their said if do will each about "
         "how up out them then she many some so these would other into has more her two like him see "
         "time could no make than first been its who now people my made over did down only way find "
         "use may water long little very after words called just where most know").split()

# "Efficient Memory Management for Large Language Model Serving with PagedAttention", section 6.1.
MEAN_INPUT, MEAN_OUTPUT, SIGMA = 161, 338, 1.0


@dataclasses.dataclass
class Turn:
    text: str
    max_tokens: int


@dataclasses.dataclass
class TurnResult:
    turn: int
    sent: float = 0.0
    first: float = 0.0  # seconds from sending to the first text
    end: float = 0.0
    tokens: int = 0
    prompt_tokens: int = 0
    cached_tokens: int = 0


def words(rng, count):
    return " ".join(rng.choices(WORDS, k=count))


def lognormal(rng, mean, low, high):
    value = rng.lognormvariate(math.log(mean) - SIGMA * SIGMA / 2, SIGMA)
    return max(low, min(high, round(value)))


def conversations(seed, count, num_turns, scale):
    """[count] conversations of num_turns turns; `scale` shortens what ShareGPT's people wrote."""
    rng = random.Random(seed)
    return [[Turn(words(rng, lognormal(rng, MEAN_INPUT * scale, 4, 400)),
                  lognormal(rng, MEAN_OUTPUT * scale, 8, 256)) for _ in range(num_turns)]
            for _ in range(count)]


def system_prompt(seed, count):
    return words(random.Random(f"system {seed}"), count)


class Client:
    """A connection that is kept; one request at a time."""

    def __init__(self, port):
        self.port = port
        self.reader = self.writer = None

    async def close(self):
        if self.writer is not None:
            self.writer.close()
            self.writer = None

    async def chat(self, messages, max_tokens, turn=0, **members):
        """(text, TurnResult) of one streamed answer of exactly max_tokens tokens."""
        body = json.dumps({
            "messages": messages, "max_tokens": max_tokens, "temperature": 0, "stream": True,
            "ignore_eos": True, "cache_prompt": True, "stream_options": {"include_usage": True},
            **members}).encode()
        result, head = await self._send(body, turn)
        if b" 200 " not in head[:16]:
            raise RuntimeError(f"the server answered {head[:200]!r} {await self.reader.read(2000)!r}")
        text = ""
        async for event in self._events():
            for choice in event.get("choices", []):
                piece = choice["delta"].get("content") or ""
                if piece and not result.first:
                    result.first = time.perf_counter() - result.sent
                text += piece
            if event.get("usage"):
                usage = event["usage"]
                result.tokens = usage["completion_tokens"]
                result.prompt_tokens = usage["prompt_tokens"]
                result.cached_tokens = (usage.get("prompt_tokens_details") or {}).get(
                    "cached_tokens", 0)
        result.end = time.perf_counter() - result.sent
        return text, result

    async def _send(self, body, turn):
        """The result to fill in, and the head of the answer."""
        was_kept = self.writer is not None
        if not was_kept:
            self.reader, self.writer = await asyncio.open_connection("127.0.0.1", self.port)
        result = TurnResult(turn, sent=time.perf_counter())
        self.writer.write(b"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\n"
                          b"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(body)
                          + body)
        try:
            return result, await self.reader.readuntil(b"\r\n\r\n")
        except (asyncio.IncompleteReadError, ConnectionError):
            # A server may close what it has kept for long enough; nothing was begun then.
            if not was_kept:
                raise
            await self.close()
            return await self._send(body, turn)

    async def _events(self):
        """The events of a chunked stream, to its end."""
        buffer = b""
        while size := int(await self.reader.readline(), 16):
            buffer += await self.reader.readexactly(size)
            await self.reader.readexactly(2)
            *lines, buffer = buffer.split(b"\n")
            for line in lines:
                if line.startswith(b"data: {"):
                    yield json.loads(line[6:])
        await self.reader.readline()


async def converse(client, system, turns, results):
    messages = [{"role": "system", "content": system}]
    for number, turn in enumerate(turns):
        messages.append({"role": "user", "content": turn.text})
        text, result = await client.chat(messages, turn.max_tokens, number)
        messages.append({"role": "assistant", "content": text})
        results.append(result)


async def run_conversations(port, num_clients, system, talks):
    """Clients take conversation after conversation; the results and the seconds in all."""
    waiting, results = list(reversed(talks)), []

    async def one():
        client = Client(port)
        while waiting:
            await converse(client, system, waiting.pop(), results)
        await client.close()
    start = time.perf_counter()
    await asyncio.gather(*(one() for _ in range(num_clients)))
    return results, time.perf_counter() - start


def percentile(values, share):
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, math.ceil(share * len(ordered)) - 1)] if ordered else 0.0


def summary(results, seconds):
    ttft = [result.first for result in results]
    end = [result.end for result in results]
    prompt = sum(result.prompt_tokens for result in results)
    return {"requests": len(results), "seconds": seconds,
            "output_tokens": sum(result.tokens for result in results),
            "output_tokens_per_second": sum(result.tokens for result in results) / seconds,
            "ttft_p50_s": statistics.median(ttft), "ttft_p95_s": percentile(ttft, 0.95),
            "e2e_p50_s": statistics.median(end), "e2e_p95_s": percentile(end, 0.95),
            "prompt_tokens": prompt,
            "cached_share": sum(result.cached_tokens for result in results) / max(prompt, 1)}
