"""Errors as the official client raises them."""

import httpx
import openai
import pytest
from conftest import SMOLLM2, TINY, async_client_of, client_of

MESSAGES = [{"role": "user", "content": "Hi"}]


def ask(client, **members):
    members = {"model": SMOLLM2, "messages": MESSAGES, "max_tokens": 2} | members
    return client.chat.completions.create(**members)


@pytest.mark.parametrize(("param", "value"), [
    ("temperature", -0.1), ("temperature", 2.1), ("temperature", "hot"), ("top_p", 1.1),
    ("top_p", -1), ("n", 0), ("n", 129), ("n", 1.5), ("max_tokens", 0), ("max_tokens", -1),
    ("max_completion_tokens", 0), ("presence_penalty", 3), ("frequency_penalty", -2.5),
    ("logit_bias", {"x": 1}), ("logit_bias", {"1": 101}), ("logit_bias", {"999999999": 1}),
    ("stop", ["a"] * 17), ("stop", [""]), ("stop", 7), ("top_logprobs", 3), ("seed", "x"),
    ("stream_options", {"include_usage": True}), ("messages", []), ("messages", "hello"),
    ("messages", [{"content": "no role"}]), ("messages", [{"role": "wizard", "content": "x"}]),
    ("messages", [7]), ("response_format", {"type": "json_object"}),
    ("tool_choice", "required"), ("tools", [7]), ("reasoning_effort", "high"),
    ("functions", [{"name": "f"}]), ("function_call", "auto"), ("stream", "yes"),
], ids=lambda value: str(value)[:24])
def test_a_bad_value_is_a_bad_request_that_names_its_field(client, param, value):
    with pytest.raises(openai.BadRequestError) as caught:
        ask(client, **{param: value})
    error = caught.value
    assert error.status_code == 400
    assert error.param == param
    assert error.type == "invalid_request_error"
    assert param in error.message


@pytest.mark.parametrize(("param", "value"), [
    ("top_k", -2), ("min_p", 2), ("repetition_penalty", 0), ("min_tokens", 5), ("priority", "x"),
    ("guided_json", {"type": "object"}), ("guided_regex", "a+"), ("stop_token_ids", [-1]),
    ("prompt_logprobs", 21), ("chat_template_kwargs", [1]), ("cache_salt", 7)],
    ids=lambda value: str(value)[:24])
def test_so_does_a_bad_extension(client, param, value):
    with pytest.raises(openai.BadRequestError) as caught:
        ask(client, extra_body={param: value})
    assert caught.value.param == param


def test_nan_is_no_number(server):
    reply = httpx.post(server.url + "/v1/completions", headers={"content-type": "application/json"},
                       content='{"prompt": "x", "temperature": NaN}')
    assert reply.status_code == 400
    assert reply.json()["error"]["type"] == "invalid_request_error"


def test_another_model_is_not_found(client):
    with pytest.raises(openai.NotFoundError) as caught:
        ask(client, model="gpt-99")
    assert caught.value.code == "model_not_found"
    assert "gpt-99" in caught.value.message


def test_a_prompt_beyond_the_context_is_told_with_the_numbers(client):
    with pytest.raises(openai.BadRequestError) as caught:
        client.completions.create(model=SMOLLM2, prompt=[1] * 5000)
    assert caught.value.code == "context_length_exceeded"
    assert "5000" in caught.value.message
    assert "4096" in caught.value.message


@pytest.mark.parametrize("path", ["/responses", "/images/generations", "/audio/speech",
                                  "/moderations", "/files", "/fine_tuning/jobs"])
def test_what_there_is_not_is_not_found(client, path):
    with pytest.raises(openai.NotFoundError) as caught:
        client.post(path, body={}, cast_to=object)
    assert caught.value.type == "invalid_request_error"


def test_the_responses_api_is_refused_clearly(client):
    with pytest.raises(openai.APIStatusError) as caught:
        client.responses.create(model=SMOLLM2, input="hi")
    assert "responses" in caught.value.message
    assert "/v1/chat/completions" in caught.value.message


def test_a_forgotten_v1_is_hinted_at(server):
    reply = httpx.post(server.url + "/chat/completions", json={})
    assert reply.status_code == 404
    assert "/v1/chat/completions" in reply.json()["error"]["message"]


def test_the_wrong_method_says_the_right_one(server):
    reply = httpx.get(server.url + "/v1/chat/completions")
    assert reply.status_code == 405
    assert "POST" in reply.headers["allow"]


@pytest.mark.parametrize("key", ["sk-wrong", "sk-right-on", "sk-right-onee", "SK-RIGHT-ONE", "x"])
def test_a_wrong_key_is_an_authentication_error(guarded, key):
    with client_of(guarded, api_key=key) as other, pytest.raises(openai.AuthenticationError):
        other.models.list()


def test_no_key_is_an_authentication_error(guarded):
    reply = httpx.get(guarded.url + "/v1/models")
    assert reply.status_code == 401
    assert reply.json()["error"]["code"] == "invalid_api_key"


def test_the_right_key_opens(guarded):
    with client_of(guarded) as made:
        assert made.models.list().data[0].id == TINY.stem


@pytest.mark.parametrize("path", ["/health", "/live", "/version"])
def test_whether_it_lives_can_be_asked_without_a_key(guarded, path):
    assert httpx.get(guarded.url + path).status_code == 200


async def test_beyond_the_queue_is_a_rate_limit_with_a_time(guarded):
    import asyncio
    async with async_client_of(guarded) as made:
        async def one():
            try:
                await made.completions.create(model=TINY.stem, prompt=[1, 2, 3], max_tokens=400,
                                              extra_body={"ignore_eos": True})
            except openai.RateLimitError as error:
                return error
            return None
        results = await asyncio.gather(*(one() for _ in range(24)))
    refused = [error for error in results if error is not None]
    assert refused and len(refused) < 24
    assert int(refused[0].response.headers["retry-after"]) >= 1


def test_the_client_tries_again_after_a_rate_limit(guarded):
    import threading
    with client_of(guarded, max_retries=8) as made:
        errors = []

        def one():
            try:
                made.completions.create(model=TINY.stem, prompt=[1, 2], max_tokens=50,
                                        extra_body={"ignore_eos": True})
            except openai.OpenAIError as error:
                errors.append(error)
        threads = [threading.Thread(target=one) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert errors == []


def test_a_time_out_of_the_client_frees_the_request(server):
    with client_of(server, timeout=0.5) as hasty:
        with pytest.raises(openai.APITimeoutError):
            ask(hasty, max_tokens=3500, extra_body={"ignore_eos": True})
    server.wait_for_metric("vllm:num_requests_running", 0, timeout=5)


def test_an_error_leaves_the_connection_in_use(server):
    with httpx.Client(base_url=server.url) as connection:
        for _ in range(3):
            assert connection.post("/v1/completions", content="{").status_code == 400
            assert connection.get("/health").status_code == 200
