"""vLLM's fields through extra_body, and what other paths there are."""

import httpx
import pytest
from conftest import SMOLLM2

PROMPT = "One two three four"


def complete(client, prompt=PROMPT, **extra):
    return client.completions.create(model=SMOLLM2, prompt=prompt, max_tokens=8, temperature=0,
                                     extra_body={"return_token_ids": True} | extra)


@pytest.mark.parametrize("extra", [
    {"top_k": 5}, {"top_k": -1}, {"min_p": 0.1}, {"repetition_penalty": 1.2},
    {"stop_token_ids": [2]}, {"include_stop_str_in_output": True}, {"ignore_eos": True},
    {"min_tokens": 2}, {"skip_special_tokens": False}, {"priority": 3}, {"request_id": "r"},
    {"return_token_ids": True}, {"return_tokens_as_token_ids": True}, {"cache_salt": "s"},
    {"allowed_token_ids": [10, 11, 12]}, {"bad_words": ["five"]}, {"prompt_logprobs": 1},
    {"truncate_prompt_tokens": 3}, {"add_special_tokens": False},
    {"use_beam_search": True, "length_penalty": 1.0}, {"spaces_between_special_tokens": True}],
    ids=lambda extra: next(iter(extra)))
def test_a_field_of_vllm_is_taken(client, extra):
    assert complete(client, **extra).choices[0].finish_reason in ("stop", "length")


def test_min_tokens_holds_the_end_back(client):
    first = complete(client).choices[0].token_ids[0]
    short = complete(client, stop_token_ids=[first]).choices[0]
    longer = complete(client, stop_token_ids=[first], min_tokens=4).choices[0]
    assert len(short.token_ids) == 1
    assert len(longer.token_ids) >= 4


def test_allowed_ids_are_the_only_ones(client):
    assert set(complete(client, allowed_token_ids=[10, 11, 12]).choices[0].token_ids) <= \
        {10, 11, 12}


def test_a_bad_word_does_not_come(client):
    text = complete(client).choices[0].text
    word = text.split()[0].strip(",.")
    assert word not in complete(client, bad_words=[word]).choices[0].text.split()


def test_a_stop_string_may_be_kept(client):
    whole = complete(client).choices[0].text
    stop = whole.strip()[:3]
    kept = complete(client, stop=[stop], include_stop_str_in_output=True).choices[0]
    assert kept.text.endswith(stop)


def test_beams_are_ordered(client):
    reply = client.completions.create(model=SMOLLM2, prompt=PROMPT, max_tokens=6, n=2, logprobs=1,
                                      extra_body={"use_beam_search": True})
    assert len(reply.choices) == 2


def test_a_message_can_be_continued(client):
    reply = client.chat.completions.create(
        model=SMOLLM2, max_tokens=8, temperature=0,
        messages=[{"role": "user", "content": "What is the capital of France?"},
                  {"role": "assistant", "content": "The capital of France is"}],
        extra_body={"continue_final_message": True, "add_generation_prompt": False})
    assert "Paris" in reply.choices[0].message.content


def test_an_unknown_field_is_told_in_a_header(client):
    raw = client.completions.with_raw_response.create(
        model=SMOLLM2, prompt=PROMPT, max_tokens=1, extra_body={"flux_capacitor": 88})
    assert any("flux_capacitor" in value for value in raw.headers.values())


def test_tokenize_and_detokenize_are_inverse(server):
    text = "Hello, wörld 🙂"
    tokens = httpx.post(server.url + "/tokenize",
                        json={"model": SMOLLM2, "prompt": text, "add_special_tokens": False}).json()
    assert tokens["count"] == len(tokens["tokens"])
    assert tokens["max_model_len"] == 4096
    back = httpx.post(server.url + "/detokenize",
                      json={"model": SMOLLM2, "tokens": tokens["tokens"]}).json()
    assert back["prompt"] == text


def test_rendering_a_chat_computes_nothing(client, server):
    messages = [{"role": "user", "content": "Render me."}]
    before = server.metrics()["vllm:prompt_tokens_total"]
    rendered = httpx.post(server.url + "/v1/chat/completions/render",
                          json={"model": SMOLLM2, "messages": messages}).json()
    assert server.metrics()["vllm:prompt_tokens_total"] == before
    reply = client.chat.completions.create(model=SMOLLM2, messages=messages, max_tokens=1,
                                           extra_body={"return_token_ids": True})
    assert reply.prompt_token_ids in _lists_of(rendered)


def _lists_of(value):
    """All lists anywhere in a JSON value."""
    if isinstance(value, dict):
        return [found for item in value.values() for found in _lists_of(item)]
    if isinstance(value, list):
        return [value] + [found for item in value for found in _lists_of(item)]
    return []


@pytest.mark.parametrize("path", ["/health", "/live", "/version", "/metrics", "/openapi.json",
                                  "/quire/cache", "/quire/plan", "/v1/models"])
def test_what_can_be_read_can_be_read(server, path):
    assert httpx.get(server.url + path).status_code == 200


def test_a_scrape_is_in_the_exposition_format(server):
    reply = httpx.get(server.url + "/metrics")
    assert reply.headers["content-type"].startswith("text/plain")
    assert server.metrics()["vllm:num_requests_running"] == 0
