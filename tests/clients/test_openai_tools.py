"""Tools with the official client."""

import json

import openai
import pytest
from conftest import CODER

TOOLS = [{"type": "function", "function": {
    "name": "get_weather", "description": "The weather of a city",
    "parameters": {"type": "object", "properties": {"city": {"type": "string"}},
                   "required": ["city"]}}}]
MESSAGES = [{"role": "user", "content": "Call get_weather for Paris. Use the tool."}]


def ask(client, messages=MESSAGES, **members):
    members = {"model": CODER, "temperature": 0, "max_tokens": 64, "tools": TOOLS} | members
    return client.chat.completions.create(messages=messages, **members)


def test_a_call_is_told_as_one(coder_client):
    choice = ask(coder_client).choices[0]
    assert choice.finish_reason == "tool_calls"
    call = choice.message.tool_calls[0]
    assert call.id
    assert (call.type, call.function.name) == ("function", "get_weather")
    assert "Paris" in json.loads(call.function.arguments)["city"]


def test_a_streamed_call_is_the_whole_call(coder_client):
    whole = ask(coder_client).choices[0].message.tool_calls[0]
    name, arguments, ids, reasons = "", "", [], []
    for chunk in ask(coder_client, stream=True):
        for choice in chunk.choices:
            reasons.append(choice.finish_reason)
            for call in choice.delta.tool_calls or []:
                assert call.index == 0
                name += call.function.name or ""
                arguments += call.function.arguments or ""
                ids += [call.id] if call.id else []
    assert name == whole.function.name
    assert json.loads(arguments) == json.loads(whole.function.arguments)
    assert len(ids) == 1
    assert reasons[-1] == "tool_calls"


def test_the_stream_helper_accumulates_a_call(coder_client):
    with coder_client.chat.completions.stream(model=CODER, messages=MESSAGES, tools=TOOLS,
                                              temperature=0, max_tokens=64) as helper:
        for _ in helper:
            pass
        message = helper.get_final_completion().choices[0].message
    assert message.tool_calls[0].function.name == "get_weather"


def test_tool_choice_none_shows_no_tool(coder_client):
    without = ask(coder_client, tool_choice="none", max_tokens=4)
    never = ask(coder_client, tools=openai.omit, max_tokens=4)
    assert without.usage.prompt_tokens == never.usage.prompt_tokens
    assert without.choices[0].message.tool_calls is None


def test_tool_choice_auto_is_the_default(coder_client):
    call = ask(coder_client, tool_choice="auto").choices[0].message.tool_calls[0]
    assert call.function == ask(coder_client).choices[0].message.tool_calls[0].function


@pytest.mark.parametrize("choice", ["required", {"type": "function",
                                                 "function": {"name": "get_weather"}}],
                         ids=["required", "named"])
def test_a_forced_call_is_refused_by_name(coder_client, choice):
    with pytest.raises(openai.BadRequestError) as caught:
        ask(coder_client, tool_choice=choice)
    assert caught.value.param == "tool_choice"


def test_the_result_of_a_call_is_part_of_the_next_prompt(coder_client):
    call = ask(coder_client).choices[0].message
    messages = MESSAGES + [call.model_dump(exclude_none=True), {
        "role": "tool", "tool_call_id": call.tool_calls[0].id, "content": '{"temperature": 21}'}]
    reply = ask(coder_client, messages, max_tokens=40)
    assert "21" in reply.choices[0].message.content
    assert reply.usage.prompt_tokens_details.cached_tokens > 0


def test_tools_do_not_hurt_a_plain_question(coder_client):
    reply = ask(coder_client, [{"role": "user", "content": "Say hello. Do not use any tool."}],
                max_tokens=16)
    assert reply.choices[0].finish_reason in ("stop", "length", "tool_calls")
