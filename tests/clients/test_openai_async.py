"""The asynchronous client: crowds, time-outs, cancellation."""

import asyncio

import openai
import pytest
from conftest import SMOLLM2, async_client_of


def body(number, **members):
    return {"model": SMOLLM2, "max_tokens": 12, "temperature": 0,
            "messages": [{"role": "user", "content": f"Tell me about the number {number}."}]} \
        | members


async def test_64_at_once_get_the_answers_that_each_would_get_alone(async_client, client):
    replies = await asyncio.gather(*(async_client.chat.completions.create(**body(number))
                                     for number in range(64)))
    assert len({reply.id for reply in replies}) == 64
    for number in (0, 17, 40, 63):
        alone = client.chat.completions.create(**body(number, extra_body={"cache_salt": "alone"}))
        assert replies[number].choices[0].message.content == alone.choices[0].message.content


async def test_64_streams_at_once_are_whole(async_client):
    async def one(number):
        text, reason = "", None
        async for chunk in await async_client.chat.completions.create(**body(number, stream=True)):
            text += chunk.choices[0].delta.content or ""
            reason = chunk.choices[0].finish_reason
        return text, reason
    streamed = await asyncio.gather(*(one(number) for number in range(64)))
    assert all(reason in ("stop", "length") for _, reason in streamed)
    whole = await async_client.chat.completions.create(**body(5))
    assert streamed[5][0] == whole.choices[0].message.content


async def test_completions_and_embeddings_mix(async_client):
    chats = [async_client.chat.completions.create(**body(number)) for number in range(8)]
    texts = [async_client.completions.create(model=SMOLLM2, prompt="One two", max_tokens=4)
             for _ in range(8)]
    vectors = [async_client.embeddings.create(model=SMOLLM2, input="word") for _ in range(8)]
    assert len(await asyncio.gather(*chats, *texts, *vectors)) == 24


async def test_a_cancelled_task_frees_its_request(async_client, server):
    task = asyncio.create_task(async_client.chat.completions.create(
        **body(1, max_tokens=3500), extra_body={"ignore_eos": True}))
    await asyncio.to_thread(server.wait_for_metric, "vllm:num_requests_running", 1, 10)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await asyncio.to_thread(server.wait_for_metric, "vllm:num_requests_running", 0, 5)


async def test_a_stream_that_is_left_frees_its_request(async_client, server):
    stream = await async_client.chat.completions.create(
        **body(2, max_tokens=3500, stream=True), extra_body={"ignore_eos": True})
    async for _ in stream:
        break
    await stream.close()
    await asyncio.to_thread(server.wait_for_metric, "vllm:num_requests_running", 0, 5)


async def test_cancelled_ones_do_not_harm_the_others(async_client):
    alone = await async_client.chat.completions.create(**body(30, max_tokens=24))
    tasks = [asyncio.create_task(async_client.chat.completions.create(**body(number, max_tokens=24)))
             for number in range(32)]
    await asyncio.sleep(0.2)
    for task in tasks[::2]:
        if task is not tasks[30]:
            task.cancel()
    results = await asyncio.gather(*tasks, return_exceptions=True)
    for number, result in enumerate(results):
        if number % 2 == 1:
            assert not isinstance(result, BaseException), result
    assert results[30].choices[0].message.content == alone.choices[0].message.content


async def test_a_time_out_is_one(server):
    async with async_client_of(server, timeout=0.3) as hasty:
        with pytest.raises(openai.APITimeoutError):
            await hasty.chat.completions.create(**body(3, max_tokens=3500),
                                                extra_body={"ignore_eos": True})
    await asyncio.to_thread(server.wait_for_metric, "vllm:num_requests_running", 0, 5)


async def test_a_slow_reader_delays_nobody(async_client):
    slow = await async_client.chat.completions.create(
        **body(4, max_tokens=400, stream=True), extra_body={"ignore_eos": True})
    await asyncio.sleep(0.5)  # nobody reads
    reply = await asyncio.wait_for(async_client.chat.completions.create(**body(5)), 20)
    assert reply.choices[0].message.content
    await slow.close()
