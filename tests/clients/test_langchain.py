"""LangChain's OpenAI classes."""

from conftest import SMOLLM2
from langchain_core.messages import HumanMessage, SystemMessage
from langchain_openai import ChatOpenAI, OpenAI, OpenAIEmbeddings


def chat(server, **members):
    return ChatOpenAI(model=SMOLLM2, base_url=server.url + "/v1", api_key="none", max_retries=0,
                      max_tokens=24, temperature=0, **members)


def test_a_chat_is_answered(server):
    reply = chat(server).invoke([SystemMessage("Be brief."),
                                 HumanMessage("What is the capital of France?")])
    assert reply.content
    assert reply.usage_metadata["input_tokens"] > 0


def test_a_stream_is_the_answer(server):
    question = [HumanMessage("Count to three.")]
    assert "".join(piece.content for piece in chat(server).stream(question)) == \
        chat(server).invoke(question).content


async def test_a_batch_is_answered(server):
    replies = await chat(server).abatch(["One?", "Two?", "Three?"])
    assert all(reply.content for reply in replies)


def test_a_completion_is_answered(server, client):
    prompt = "The sun rises in the"
    text = OpenAI(model=SMOLLM2, base_url=server.url + "/v1", api_key="none", max_tokens=8,
                  temperature=0).invoke(prompt)
    assert text == client.completions.create(model=SMOLLM2, prompt=prompt, max_tokens=8,
                                             temperature=0).choices[0].text


def test_embeddings_are_vectors(server):
    vectors = OpenAIEmbeddings(model=SMOLLM2, base_url=server.url + "/v1", api_key="none",
                               check_embedding_ctx_length=False).embed_documents(["a", "b"])
    assert [len(vector) for vector in vectors] == [576, 576]
