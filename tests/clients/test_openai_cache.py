"""What usage says of the cache, and that it is the truth."""

import uuid

import httpx
from conftest import SMOLLM2


def body(messages, **members):
    return {"model": SMOLLM2, "messages": messages, "max_tokens": 24, "temperature": 0} | members


def story(count=60):
    """Text that no earlier request has had."""
    return f"[{uuid.uuid4()}] " + "The river ran past the old mill. " * count


def cached(reply):
    return reply.usage.prompt_tokens_details.cached_tokens


def test_the_first_is_cold_and_the_same_again_hits(client):
    messages = [{"role": "user", "content": story()}]
    first = client.chat.completions.create(**body(messages))
    second = client.chat.completions.create(**body(messages))
    assert cached(first) < 64
    assert cached(second) >= first.usage.prompt_tokens - 17
    assert first.choices[0].message.content == second.choices[0].message.content


def test_a_second_turn_finds_prompt_and_answer(client):
    messages = [{"role": "user", "content": story()}]
    first = client.chat.completions.create(**body(messages))
    messages += [{"role": "assistant", "content": first.choices[0].message.content},
                 {"role": "user", "content": "Go on."}]
    second = client.chat.completions.create(**body(messages))
    known = first.usage.prompt_tokens + first.usage.completion_tokens
    assert cached(second) >= known - 20


def test_a_system_prompt_is_shared_between_questions(client):
    system = {"role": "system", "content": story()}
    ask = [client.chat.completions.create(**body(
        [system, {"role": "user", "content": text}], max_tokens=2)) for text in ("One?", "Two?")]
    assert cached(ask[1]) > ask[0].usage.prompt_tokens - 40


def test_salts_do_not_meet(client):
    messages = [{"role": "user", "content": story()}]
    client.chat.completions.create(**body(messages, extra_body={"cache_salt": "red"}))
    other = client.chat.completions.create(**body(messages, extra_body={"cache_salt": "blue"}))
    same = client.chat.completions.create(**body(messages, extra_body={"cache_salt": "red"}))
    assert cached(other) == 0
    assert cached(same) > 100


def test_sums_of_usage_are_the_metrics(client, server):
    before = server.metrics()
    prompt = generated = hits = 0
    text = story(10)
    for members in ({}, {}, {"n": 2, "temperature": 1}, {"stop": "e"}):
        usage = client.chat.completions.create(
            **body([{"role": "user", "content": text}], **members)).usage
        prompt += usage.prompt_tokens
        generated += usage.completion_tokens
        hits += usage.prompt_tokens_details.cached_tokens
    after = server.metrics()

    def grown(name):
        return after[name] - before.get(name, 0)
    assert grown("vllm:prompt_tokens_total") == prompt
    assert grown("vllm:generation_tokens_total") == generated
    assert grown("vllm:prefix_cache_hits_total") == hits


def test_the_quire_object_says_why_a_prefix_was_not_found(server):
    base = story()
    url = server.url + "/v1/chat/completions"

    def ask(text):
        return httpx.post(url, timeout=60, json=body(
            [{"role": "user", "content": text}], max_tokens=2, quire=True)).json()["usage"]["quire"]
    first = ask(base)
    assert first["queue_ms"] >= 0 and first["prefill_ms"] > 0 and first["preemptions"] == 0
    second = ask(base.replace("mill", "hill", 1))
    assert second["miss"]["reason"] == "differs"
    assert "hill" in second["miss"]["prompt_text"]
    assert "mill" in second["miss"]["cached_text"]
    assert ask(base)["miss"] is None
