"""Servers and clients of the suites: one real `quire serve` a model and session.

    QUIRE=build/release/quire QUIRE_CACHE=... python -m pytest tests/clients

A suite over a model that is not in the model cache is skipped, and says so.
"""

import os
import pathlib
import sys

import openai
import pytest

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "support"))

import serve_process  # noqa: E402

QUIRE = pathlib.Path(os.environ.get("QUIRE", HERE.parents[1] / "build" / "release" / "quire"))
TINY = HERE.parent / "golden" / "models" / "tiny-llama.gguf"
SMOLLM2 = "smollm2-135m-instruct"
CODER = "qwen2.5-coder-0.5b-instruct"


def serve(model, *flags, **options):
    if not QUIRE.exists():
        pytest.skip(f"{QUIRE} is not built; QUIRE names another")
    if isinstance(model, str) and not serve_process.model_is_here(model):
        pytest.skip(f"{model} is not in the model cache; quire pull {model} brings it")
    return serve_process.ServeProcess(QUIRE, model, *flags, **options)


def client_of(server, **options):
    options = {"api_key": server.key or "none", "max_retries": 0, "timeout": 120} | options
    return openai.OpenAI(base_url=server.url + "/v1", **options)


def async_client_of(server, **options):
    options = {"api_key": server.key or "none", "max_retries": 0, "timeout": 120} | options
    return openai.AsyncOpenAI(base_url=server.url + "/v1", **options)


@pytest.fixture(scope="session")
def server():
    """SmolLM2."""
    with serve(SMOLLM2, "-c", "4096", "--kv-size", "1GiB", "--alias",
               f"{SMOLLM2},gpt-4o-mini") as running:
        yield running


@pytest.fixture(scope="session")
def client(server):
    with client_of(server) as made:
        yield made


@pytest.fixture
async def async_client(server):
    async with async_client_of(server) as made:
        yield made


@pytest.fixture(scope="session")
def coder():
    """A model with tools and fill-in-the-middle tokens."""
    with serve(CODER, "-c", "4096", "--kv-size", "512MiB") as running:
        yield running


@pytest.fixture(scope="session")
def coder_client(coder):
    with client_of(coder) as made:
        yield made


@pytest.fixture(scope="session")
def guarded():
    """A tiny model behind a key, one answer at a time and one waiting."""
    with serve(TINY, "--parallel", "1", "--max-queue", "1", environment={"QUIRE_API_KEY": "sk-right-one"},
               key="sk-right-one") as running:
        yield running
