"""Log-probabilities of chats with the official client."""

import math

import pytest
from conftest import SMOLLM2

MESSAGES = [{"role": "user", "content": "Name a colour."}]


def ask(client, **members):
    members = {"model": SMOLLM2, "messages": MESSAGES, "max_tokens": 6, "temperature": 0,
               "logprobs": True} | members
    return client.chat.completions.create(**members).choices[0]


def test_every_sampled_token_has_an_entry(client):
    choice = ask(client, extra_body={"ignore_eos": True})
    assert len(choice.logprobs.content) == 6
    assert all(entry.logprob <= 0 for entry in choice.logprobs.content)
    assert choice.logprobs.refusal is None


def test_bytes_spell_the_answer(client):
    choice = ask(client, extra_body={"ignore_eos": True})
    spelled = b"".join(bytes(entry.bytes) for entry in choice.logprobs.content)
    assert spelled.decode() == choice.message.content


@pytest.mark.parametrize("top", [0, 1, 3, 20])
def test_the_best_tokens_come_in_order(client, top):
    for entry in ask(client, top_logprobs=top).logprobs.content:
        values = [other.logprob for other in entry.top_logprobs]
        assert len(values) == top
        assert values == sorted(values, reverse=True)


def test_the_best_twenty_are_no_more_than_everything(client):
    for entry in ask(client, top_logprobs=20).logprobs.content:
        assert sum(math.exp(other.logprob) for other in entry.top_logprobs) <= 1 + 1e-6


def test_asking_for_them_changes_no_answer(client):
    assert ask(client).message.content == ask(client, logprobs=False).message.content


def test_they_are_the_models_whatever_the_temperature(client):
    cold = ask(client, max_tokens=1, top_logprobs=5).logprobs.content[0]
    hot = ask(client, max_tokens=1, top_logprobs=5, temperature=1.7, seed=1).logprobs.content[0]
    assert [(other.token, other.logprob) for other in cold.top_logprobs] == \
        [(other.token, other.logprob) for other in hot.top_logprobs]


def test_prompt_log_probabilities_are_vllms(client):
    reply = client.chat.completions.create(
        model=SMOLLM2, messages=MESSAGES, max_tokens=1, extra_body={"prompt_logprobs": 2})
    assert len(reply.prompt_logprobs) == reply.usage.prompt_tokens
    assert reply.prompt_logprobs[0] is None
    for position in reply.prompt_logprobs[1:]:
        assert 2 <= len(position) <= 3
        assert all(entry["logprob"] <= 0 for entry in position.values())
    assert reply.usage.prompt_tokens_details.cached_tokens == 0


def test_tokens_as_ids(client):
    for entry in ask(client, extra_body={"return_tokens_as_token_ids": True}).logprobs.content:
        assert entry.token.startswith("token_id:")
