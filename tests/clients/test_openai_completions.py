"""Completions with the official client."""

import pytest
from conftest import CODER, SMOLLM2

PROMPT = "The sun rises in the"


def complete(client, prompt=PROMPT, **members):
    members = {"model": SMOLLM2, "max_tokens": 8, "temperature": 0} | members
    return client.completions.create(prompt=prompt, **members)


def test_an_answer_has_every_member_that_the_client_reads(client):
    reply = complete(client)
    assert reply.id.startswith("cmpl-")
    assert (reply.object, reply.model) == ("text_completion", SMOLLM2)
    choice = reply.choices[0]
    assert (choice.index, choice.logprobs) == (0, None)
    assert choice.text
    assert choice.finish_reason in ("stop", "length")


def test_a_model_goes_on_with_a_series(coder_client):
    reply = complete(coder_client, "1, 2, 3, 4, 5,", model=CODER)
    assert reply.choices[0].text.startswith(" 6, 7")


def test_the_default_is_16_tokens(client):
    reply = complete(client, max_tokens=None, extra_body={"ignore_eos": True})
    assert reply.usage.completion_tokens == 16


def test_echo_puts_the_prompt_in_front(client):
    plain, echoed = complete(client), complete(client, echo=True)
    assert echoed.choices[0].text == PROMPT + plain.choices[0].text


def test_echo_without_an_answer_is_the_prompt(client):
    reply = complete(client, echo=True, max_tokens=0)
    assert reply.choices[0].text == PROMPT
    assert reply.usage.completion_tokens == 0


@pytest.mark.parametrize("count", [2, 5])
def test_several_prompts_are_answered_in_order(client, count):
    prompts = [f"{number} plus one is" for number in range(count)]
    together = complete(client, prompts)
    assert [choice.index for choice in together.choices] == list(range(count))
    alone = [complete(client, prompt).choices[0].text for prompt in prompts]
    assert [choice.text for choice in together.choices] == alone


def test_several_prompts_with_n_are_prompt_major(client):
    reply = complete(client, ["One", "Two"], n=2, echo=True, temperature=1)
    assert [choice.text[:3] for choice in reply.choices] == ["One", "One", "Two", "Two"]
    assert [choice.index for choice in reply.choices] == [0, 1, 2, 3]


def test_a_prompt_of_ids_is_the_prompt_of_text(client):
    ids = complete(client, extra_body={"return_token_ids": True}).choices[0].prompt_token_ids
    assert complete(client, ids).choices[0].text == complete(client).choices[0].text


def test_prompts_of_ids_are_several(client):
    ids = complete(client, extra_body={"return_token_ids": True}).choices[0].prompt_token_ids
    reply = complete(client, [ids, ids])
    assert reply.choices[0].text == reply.choices[1].text == complete(client).choices[0].text


def test_a_stop_string_is_cut(client):
    whole = complete(client).choices[0].text
    stop = whole[5:8]
    choice = complete(client, stop=stop).choices[0]
    assert choice.text == whole[:whole.index(stop)]
    assert choice.finish_reason == "stop"


def test_best_of_as_many_as_n_is_taken(client):
    assert len(complete(client, n=2, best_of=2).choices) == 2


@pytest.mark.parametrize("logprobs", [0, 1, 5])
def test_log_probabilities_are_parallel_arrays(client, logprobs):
    entries = complete(client, logprobs=logprobs, max_tokens=4,
                       extra_body={"ignore_eos": True}).choices[0].logprobs
    assert len(entries.tokens) == len(entries.token_logprobs) == len(entries.top_logprobs) == 4
    assert len(entries.text_offset) == 4
    assert all(value <= 0 for value in entries.token_logprobs)
    for token, top in zip(entries.tokens, entries.top_logprobs, strict=True):
        assert token in top
        assert len(top) in (max(logprobs, 1), logprobs + 1)


def test_echoed_log_probabilities_begin_with_none(client):
    entries = complete(client, echo=True, logprobs=1, max_tokens=1).choices[0].logprobs
    assert entries.token_logprobs[0] is None
    assert all(value <= 0 for value in entries.token_logprobs[1:])
    assert "".join(entries.tokens).startswith(PROMPT)


def test_greedy_tokens_are_the_best(client):
    entries = complete(client, logprobs=2).choices[0].logprobs
    for token, value, top in zip(entries.tokens, entries.token_logprobs, entries.top_logprobs,
                                 strict=True):
        assert value == max(top.values())
        assert top[token] == value


def test_streamed_pieces_are_the_whole(client):
    whole = complete(client)
    pieces = list(complete(client, stream=True))
    assert "".join(piece.choices[0].text for piece in pieces if piece.choices) == \
        whole.choices[0].text
    assert pieces[-1].choices[0].finish_reason == whole.choices[0].finish_reason
    assert len({piece.id for piece in pieces}) == 1


def test_streams_of_several_prompts_keep_their_indexes(client):
    prompts = ["One two three", "Red green"]
    texts = {0: "", 1: ""}
    for piece in complete(client, prompts, stream=True):
        for choice in piece.choices:
            texts[choice.index] += choice.text
    assert [texts[0], texts[1]] == [choice.text for choice in complete(client, prompts).choices]


def test_a_streamed_echo_begins_with_the_prompt(client):
    text = "".join(piece.choices[0].text for piece in complete(client, echo=True, stream=True)
                   if piece.choices)
    assert text == PROMPT + complete(client).choices[0].text


def test_a_suffix_is_filled_in(coder_client):
    reply = coder_client.completions.create(
        model=CODER, prompt="def add(a, b):\n    return ",
        suffix="\n\nprint(add(1, 2))\n", max_tokens=8, temperature=0)
    assert "a + b" in reply.choices[0].text


def test_a_suffix_needs_a_model_that_was_made_for_it(client):
    import openai
    with pytest.raises(openai.BadRequestError) as caught:
        complete(client, suffix="the end")
    assert caught.value.param == "suffix"


def test_a_truncated_prompt_keeps_its_last_tokens(client):
    long = "word " * 300
    reply = complete(client, long, extra_body={"truncate_prompt_tokens": 10})
    assert reply.usage.prompt_tokens == 10
