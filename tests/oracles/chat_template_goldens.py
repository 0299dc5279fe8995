"""Renders templates with Python's jinja2, set up by transformers itself, as goldens for the C++ tests.

    python chat_template_goldens.py [MODEL.gguf ...]

writes tests/golden/chat_template/cases.json (the inputs, and for each case its template, the index
of its input, its output or error) and, for the model files given that hold a template, tests/golden/chat_template/models.json: only length and SHA-256 of what their own
templates render, keyed by file name. Needs transformers, jinja2 and, for model files, gguf.
"""

import datetime
import hashlib
import json
import pathlib
import sys

import transformers.utils.chat_template_utils as chat_template_utils

from chat_template_snippets import MESSAGES, SNIPPETS, TEMPLATES, TOOLS

GOLDEN = pathlib.Path(__file__).resolve().parent.parent / "golden" / "chat_template"


class FixedDatetime(datetime.datetime):
    """Friday 2024-07-05 09:08:07, local time."""

    @classmethod
    def now(cls, tz=None):
        return cls(2024, 7, 5, 9, 8, 7)


chat_template_utils.datetime = FixedDatetime


def render(template, case):
    context = {"messages": [], "tools": None, "documents": None, "add_generation_prompt": True}
    context.update(case.get("extra", {}))
    context.update({key: value for key, value in case.items() if key in context})
    context.update(case.get("trusted", {}))
    return chat_template_utils._compile_jinja_template(template).render(**context)


def golden(template, case, inputs):
    if case not in inputs:
        inputs.append(case)
    entry = {"template": template, "input": inputs.index(case)}
    try:
        entry["output"] = render(template, case)
    except Exception as error:  # what jinja2 and the sandbox raise has no common base
        entry["error"] = f"{type(error).__name__}: {error}"
    return entry


def model_cases():
    call = {"id": "c1", "type": "function",
            "function": {"name": "add", "arguments": {"a": 2, "b": "x"}}}
    user = {"role": "user", "content": "hi"}
    return {
        "user": {"messages": [user]},
        "empty system": {"messages": [{"role": "system", "content": ""}, user]},
        "conversation": {"messages": MESSAGES},
        "no generation prompt": {"messages": MESSAGES, "add_generation_prompt": False},
        "tools": {"messages": MESSAGES, "tools": TOOLS},
        "tool call": {"messages": [user, {"role": "assistant", "content": "", "tool_calls": [call]},
                                   {"role": "tool", "content": "7"}], "tools": TOOLS},
        "call last": {"messages": [user, {"role": "assistant", "content": "", "tool_calls": [call]}],
                      "tools": TOOLS},
    }


def model_goldens(path):
    from gguf import GGUFReader

    field = GGUFReader(path).get_field("tokenizer.chat_template")
    if field is None:
        return None
    template = bytes(field.parts[field.data[0]]).decode()
    goldens = []
    for name, case in model_cases().items():
        case = {**case, "trusted": {"bos_token": "<s>", "eos_token": "</s>"}}
        entry = {"name": name, "input": case}
        try:
            text = render(template, case).encode()
            entry |= {"bytes": len(text), "sha256": hashlib.sha256(text).hexdigest()}
        except Exception as error:
            entry["error"] = f"{type(error).__name__}: {error}"
        goldens.append(entry)
    return goldens


def write(name, content):
    GOLDEN.mkdir(parents=True, exist_ok=True)
    text = json.dumps(content, ensure_ascii=False, indent=1) + "\n"
    (GOLDEN / name).write_text(text, encoding="utf-8")


def main():
    inputs = []
    cases = [golden(template, case, inputs) for template, case in SNIPPETS + TEMPLATES]
    write("cases.json", {"inputs": inputs, "cases": cases})
    print(f"{len(cases)} cases, {sum('error' in case for case in cases)} of them errors")
    models = {pathlib.Path(path).name: model_goldens(path) for path in sys.argv[1:]}
    models = {name: goldens for name, goldens in models.items() if goldens is not None}
    if models:
        write("models.json", models)


if __name__ == "__main__":
    main()
