"""Embeddings with the official client."""

import base64
import math
import struct

import openai
import pytest
from conftest import SMOLLM2


def embed(client, text, **members):
    return client.embeddings.create(model=SMOLLM2, input=text, **members)


def test_an_answer_has_every_member_that_the_client_reads(client):
    reply = embed(client, "hello world")
    assert reply.object == "list"
    assert reply.model == SMOLLM2
    assert (reply.data[0].index, reply.data[0].object) == (0, "embedding")
    assert reply.usage.prompt_tokens == reply.usage.total_tokens > 0


def test_a_vector_has_the_models_width_and_length_1(client):
    vector = embed(client, "hello world", encoding_format="float").data[0].embedding
    assert len(vector) == 576
    assert math.isclose(sum(value * value for value in vector), 1, rel_tol=1e-4)


def test_base64_is_the_same_vector(client):
    numbers = embed(client, "hello", encoding_format="float").data[0].embedding
    coded = embed(client, "hello", encoding_format="base64").data[0].embedding
    assert isinstance(coded, str)
    unpacked = struct.unpack(f"<{len(numbers)}f", base64.b64decode(coded))
    assert unpacked == pytest.approx(numbers, abs=1e-6)


def test_the_clients_default_is_the_same_vector(client):
    assert embed(client, "hello").data[0].embedding == pytest.approx(
        embed(client, "hello", encoding_format="float").data[0].embedding, abs=1e-6)


@pytest.mark.parametrize("count", [1, 3, 17])
def test_inputs_keep_their_order(client, count):
    texts = [f"text number {number}" for number in range(count)]
    reply = embed(client, texts, encoding_format="float")
    assert [item.index for item in reply.data] == list(range(count))
    for text, item in list(zip(texts, reply.data, strict=True))[:3]:
        assert item.embedding == embed(client, text, encoding_format="float").data[0].embedding


def test_what_is_alike_is_near(client):
    first, second, other = (
        item.embedding for item in
        embed(client, ["a small dog", "a little dog", "quarterly tax statement"],
              encoding_format="float").data)
    near = sum(a * b for a, b in zip(first, second, strict=True))
    far = sum(a * b for a, b in zip(first, other, strict=True))
    assert near > far


def test_ids_are_an_input(client):
    reply = embed(client, [1, 2, 3], encoding_format="float")
    assert reply.usage.prompt_tokens == 3
    assert len(embed(client, [[1, 2, 3], [4]]).data) == 2


def test_the_pooling_can_be_chosen(client):
    mean, last = (embed(client, "some words here", encoding_format="float",
                        extra_body={"pooling": pooling}).data[0].embedding
                  for pooling in ("mean", "last"))
    assert mean != last


def test_the_same_text_gives_the_same_bits(client):
    assert embed(client, "again").data[0].embedding == embed(client, "again").data[0].embedding


@pytest.mark.parametrize("text", ["", [], [""], [[]], None, 7, {"a": 1}, [1, "two"], [-1],
                                  [10**9]], ids=repr)
def test_what_is_no_input_is_told(client, text):
    with pytest.raises(openai.BadRequestError) as caught:
        embed(client, text)
    assert caught.value.param == "input"


@pytest.mark.parametrize("members", [{"encoding_format": "hex"}, {"dimensions": 10}],
                         ids=lambda members: next(iter(members)))
def test_what_is_not_supported_is_named(client, members):
    with pytest.raises(openai.BadRequestError) as caught:
        embed(client, "x", **members)
    assert caught.value.param == next(iter(members))


def test_a_text_beyond_the_context_is_refused(client):
    with pytest.raises(openai.BadRequestError) as caught:
        embed(client, "word " * 6000)
    assert caught.value.code == "context_length_exceeded"
