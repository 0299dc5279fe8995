"""A prefix outlives the server that computed it: on disk, found by the next one."""

import uuid

import httpx
import pytest
from conftest import SMOLLM2, client_of, serve

FLAGS = ["-c", "4096", "--kv-size", "512MiB"]


def story(count=100):
    """Text that no earlier request has had."""
    return f"[{uuid.uuid4()}] " + "The river ran past the old mill. " * count


def body(text, **members):
    return {"model": SMOLLM2, "messages": [{"role": "user", "content": text}], "max_tokens": 16,
            "temperature": 0, "logprobs": True, "top_logprobs": 3} | members


def ask(server, text, **members):
    reply = httpx.post(server.url + "/v1/chat/completions", timeout=300,
                       json=body(text, quire=True, **members))
    assert reply.status_code == 200, reply.text
    return reply.json()


def cached(reply):
    return reply["usage"]["prompt_tokens_details"]["cached_tokens"]


def by_tier(reply):
    return reply["usage"]["quire"]["cached_by_tier"]


def told(reply):
    """All that an answer says, bit for bit."""
    choice = reply["choices"][0]
    return choice["message"], choice["logprobs"]


def on_disk(directory, **options):
    return serve(SMOLLM2, *FLAGS, "--kv-disk", str(directory), **options)


def sample(server, name, **labels):
    """A series of /metrics by its name and the labels that are given."""
    for key, value in server.metrics().items():
        if key.startswith(name + "{") and all(f'{k}="{v}"' in key for k, v in labels.items()):
            return value
    raise KeyError(name)


@pytest.fixture(scope="module")
def restarted(tmp_path_factory):
    """What was answered cold, and a second server over the same directory."""
    directory = tmp_path_factory.mktemp("tier") / "kv"
    texts = [story(), story()]
    with on_disk(directory) as first:
        cold = [ask(first, text) for text in texts]
    with on_disk(directory) as second:
        yield texts, cold, second


def test_after_a_restart_the_disk_has_the_prefix_and_the_answer_is_the_same(restarted):
    texts, cold, server = restarted
    warm = ask(server, texts[0])
    num_tokens = cold[0]["usage"]["prompt_tokens"]
    assert cached(cold[0]) < 64
    assert cached(warm) >= num_tokens - 17
    parts = by_tier(warm)
    assert parts["disk"] >= num_tokens - 64
    assert sum(parts.values()) == cached(warm)
    assert told(warm) == told(cold[0])
    # From here on memory has it.
    again = ask(server, texts[0])
    assert by_tier(again)["disk"] == 0
    assert cached(again) >= num_tokens - 17
    assert told(again) == told(cold[0])


def test_a_client_that_knows_nothing_of_tiers_sees_cached_tokens(restarted):
    texts, cold, server = restarted
    with client_of(server) as client:
        reply = client.chat.completions.create(**body(texts[1]))
    assert reply.usage.prompt_tokens_details.cached_tokens >= reply.usage.prompt_tokens - 17
    assert reply.choices[0].message.content == cold[1]["choices"][0]["message"]["content"]


def test_a_request_waits_at_most_a_quarter_of_a_second(restarted):
    texts, _, server = restarted
    assert ask(server, texts[0])["usage"]["quire"]["tier_wait_ms"] <= 250
    # The machine may be busy when the wait ends; the wait itself is 250 ms.
    assert server.metrics()["quire_tier_wait_max_seconds"] < 0.5


def test_metrics_count_what_the_disk_brought(restarted):
    texts, _, server = restarted
    ask(server, texts[0])
    ask(server, texts[1])
    assert sample(server, "quire_tier_up", tier="disk") == 1
    assert sample(server, "quire_tier_blocks_loaded_total", tier="disk") > 0
    assert sample(server, "quire_cached_tokens_total", tier="disk") > 500
    metrics = server.metrics()
    hits = metrics["vllm:external_prefix_cache_hits_total"]
    assert 0 < hits <= metrics["vllm:external_prefix_cache_queries_total"]
    assert metrics["vllm:kv_offload_load_bytes_total"] > 0
    assert metrics["quire_tier_faults_total"] == 0


def test_the_cache_report_lists_the_disk(restarted):
    texts, _, server = restarted
    ask(server, texts[0])
    report = httpx.get(server.url + "/quire/cache").json()
    tier, = report["tiers"]
    assert tier["tier"] == "disk" and tier["state"] == "up"
    assert tier["records"] > 0 and 0 < tier["bytes"] <= (tier["max_bytes"] or tier["bytes"])
    assert tier["counters"]["blocks_loaded"] > 0 and tier["faults"] == {}
    assert report["loads"]["tokens_from_disk"] > 0


def test_another_salt_finds_nothing_on_disk(restarted):
    texts, _, server = restarted
    other = ask(server, texts[0], cache_salt="someone else")
    assert cached(other) == 0
    assert other["usage"]["quire"]["miss"]["reason"] == "never_seen"


def test_the_log_tells_of_the_disk_at_the_start(restarted):
    server = restarted[2]
    assert '"event":"tier"' in server.log() or " tier " in server.log()
    assert "tier_down" not in server.log()
