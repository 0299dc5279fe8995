"""Streams of chats with the official client, and as bytes."""

import json

import httpx
import pytest
from conftest import SMOLLM2

MESSAGES = [{"role": "user", "content": "Count from one to five."}]


def body(**members):
    return {"model": SMOLLM2, "messages": MESSAGES, "max_tokens": 16, "temperature": 0} | members


def stream(client, **members):
    return list(client.chat.completions.create(**body(stream=True, **members)))


def text_of(chunks, index=0):
    return "".join(choice.delta.content or "" for chunk in chunks for choice in chunk.choices
                   if choice.index == index)


def events(server, **members):
    """The data of a stream's events, by a parser that takes nothing but `data: ` and comments."""
    with httpx.stream("POST", server.url + "/v1/chat/completions",
                      json=body(stream=True, **members), timeout=60) as reply:
        assert reply.status_code == 200
        assert reply.headers["content-type"].startswith("text/event-stream")
        assert "no-cache" in reply.headers.get("cache-control", "")
        raw = reply.read().decode()
    assert raw.endswith("\n\n")
    found = []
    for event in raw.split("\n\n")[:-1]:
        if event.startswith(":"):
            continue
        assert event.startswith("data: ") and "\n" not in event, event
        found.append(event[len("data: "):])
    return found


def test_pieces_are_the_whole(client):
    whole = client.chat.completions.create(**body())
    chunks = stream(client)
    assert text_of(chunks) == whole.choices[0].message.content
    assert chunks[-1].choices[0].finish_reason == whole.choices[0].finish_reason


def test_the_role_comes_first_and_once(client):
    chunks = stream(client)
    assert chunks[0].choices[0].delta.role == "assistant"
    assert not chunks[0].choices[0].delta.content
    assert all(chunk.choices[0].delta.role is None for chunk in chunks[1:])


def test_the_finish_reason_comes_last_and_once(client):
    chunks = stream(client)
    reasons = [chunk.choices[0].finish_reason for chunk in chunks]
    assert reasons[-1] in ("stop", "length")
    assert all(reason is None for reason in reasons[:-1])


def test_chunks_share_id_time_and_model(client):
    chunks = stream(client)
    assert len({(chunk.id, chunk.created, chunk.model) for chunk in chunks}) == 1
    assert {chunk.object for chunk in chunks} == {"chat.completion.chunk"}


def test_usage_comes_in_a_chunk_of_its_own(client):
    chunks = stream(client, stream_options={"include_usage": True})
    assert chunks[-1].choices == []
    usage = chunks[-1].usage
    whole = client.chat.completions.create(**body()).usage
    assert (usage.prompt_tokens, usage.completion_tokens) == \
        (whole.prompt_tokens, whole.completion_tokens)
    assert usage.prompt_tokens_details.cached_tokens >= 0
    assert all(chunk.usage is None for chunk in chunks[:-1])


@pytest.mark.parametrize("options", [None, {"include_usage": False}])
def test_no_usage_where_nobody_asked(client, options):
    assert all(chunk.usage is None for chunk in stream(client, stream_options=options))


def test_events_end_with_done(server):
    found = events(server)
    assert found[-1] == "[DONE]"
    assert all(json.loads(event)["object"] == "chat.completion.chunk" for event in found[:-1])


def test_n_answers_come_side_by_side(client):
    whole = client.chat.completions.create(**body(n=3, temperature=1, seed=5))
    chunks = stream(client, n=3, temperature=1, seed=5)
    for choice in whole.choices:
        assert text_of(chunks, choice.index) == choice.message.content
    ends = [choice.index for chunk in chunks for choice in chunk.choices if choice.finish_reason]
    assert sorted(ends) == [0, 1, 2]


def test_log_probabilities_stream_with_their_tokens(client):
    whole = client.chat.completions.create(**body(logprobs=True, top_logprobs=2))
    chunks = stream(client, logprobs=True, top_logprobs=2)
    streamed = [entry for chunk in chunks if chunk.choices and chunk.choices[0].logprobs
                for entry in chunk.choices[0].logprobs.content or []]
    assert [entry.token for entry in streamed] == \
        [entry.token for entry in whole.choices[0].logprobs.content]
    assert [entry.logprob for entry in streamed] == \
        [entry.logprob for entry in whole.choices[0].logprobs.content]


def test_a_stop_string_never_leaks(client):
    whole = client.chat.completions.create(**body(max_tokens=32)).choices[0].message.content
    stop = whole[len(whole) // 2:len(whole) // 2 + 3]
    chunks = stream(client, stop=stop, max_tokens=32)
    text = text_of(chunks)
    assert text == whole[:whole.index(stop)]
    assert chunks[-1].choices[0].finish_reason == "stop"


@pytest.mark.parametrize("prompt", ["Repeat: 🙂🙃🙂🙃", "Say it in Japanese: 日本語", "Ünïcödé ßß"])
def test_pieces_hold_whole_characters(server, prompt):
    found = events(server, messages=[{"role": "user", "content": prompt}], temperature=1.5, seed=9,
                   max_tokens=24, ignore_eos=True)
    text = ""
    for event in found[:-1]:
        piece = json.loads(event)["choices"][0]["delta"].get("content") or ""
        piece.encode("utf-8")  # no half of a surrogate pair
        text += piece
    whole = httpx.post(server.url + "/v1/chat/completions", timeout=60, json=body(
        messages=[{"role": "user", "content": prompt}], temperature=1.5, seed=9, max_tokens=24,
        ignore_eos=True)).json()
    assert text == whole["choices"][0]["message"]["content"]


def test_a_fault_before_the_start_is_no_stream(server):
    reply = httpx.post(server.url + "/v1/chat/completions", json=body(stream=True, temperature=9))
    assert reply.status_code == 400
    assert reply.json()["error"]["param"] == "temperature"


def test_the_stream_helper_accumulates(client):
    whole = client.chat.completions.create(**body()).choices[0].message.content
    with client.chat.completions.stream(**body(stop=whole[10:13])) as helper:
        for _ in helper:
            pass
        final = helper.get_final_completion()
    assert final.choices[0].message.content == whole[:whole.index(whole[10:13])]


def test_a_raw_stream_can_be_read_by_lines(client):
    with client.chat.completions.with_streaming_response.create(
            **body(stream=True)) as reply:
        lines = [line for line in reply.iter_lines() if line]
    assert lines[-1] == "data: [DONE]"


def test_closing_a_stream_frees_the_request(client, server):
    reply = client.chat.completions.create(**body(stream=True, max_tokens=3000),
                                           extra_body={"ignore_eos": True})
    next(iter(reply))
    reply.close()
    server.wait_for_metric("vllm:num_requests_running", 0, timeout=5)
