"""Runs in the Python of an engine that has no bench program: OpenVINO GenAI or vLLM.

    python worker.py '{"engine": "OpenVINO", "model": PATH, "kind": "decode", ...}'

Prints {"value": ...}. Speeds come from two calls on the same random token ids: one that asks for a
single token, one that asks for `decoded` more; their difference is decoding. The shorter call is
run once before anything is timed, and reuse of prefixes is off, so that every prompt is computed.
"""

import json
import pathlib
import random
import sys
import time


class OpenVino:
    def __init__(self, task):
        import openvino_genai
        self.genai = openvino_genai
        scheduler = openvino_genai.SchedulerConfig()
        scheduler.enable_prefix_caching = False
        scheduler.cache_size = 2  # GiB
        scheduler.max_num_batched_tokens = max(512, task["parallel"] * 64)
        self.pipeline = openvino_genai.LLMPipeline(
            task["model"], "CPU", scheduler_config=scheduler,
            INFERENCE_NUM_THREADS=task["threads"], KV_CACHE_PRECISION="f16")

    def generate(self, prompts, max_tokens):
        import numpy
        import openvino
        config = self.genai.GenerationConfig()
        config.max_new_tokens = max_tokens
        config.ignore_eos = True
        config.do_sample = False
        ids = openvino.Tensor(numpy.array(prompts, dtype=numpy.int64))
        mask = openvino.Tensor(numpy.ones((len(prompts), len(prompts[0])), dtype=numpy.int64))
        self.pipeline.generate(self.genai.TokenizedInputs(ids, mask), config)


class Vllm:
    def __init__(self, task):
        import vllm
        self.vllm = vllm
        self.model = vllm.LLM(model=task["model"], dtype="bfloat16", max_model_len=task["context"],
                              max_num_seqs=task["parallel"], enable_prefix_caching=False)

    def generate(self, prompts, max_tokens):
        parameters = self.vllm.SamplingParams(temperature=0, max_tokens=max_tokens,
                                              ignore_eos=True)
        self.model.generate([{"prompt_token_ids": prompt} for prompt in prompts], parameters,
                            use_tqdm=False)


def peak_mib():
    status = pathlib.Path("/proc/self/status").read_text()
    return int(next(line for line in status.splitlines()
                    if line.startswith("VmHWM:")).split()[1]) / 1024


def seconds_of(engine, prompts, max_tokens):
    start = time.perf_counter()
    engine.generate(prompts, max_tokens)
    return time.perf_counter() - start


def value_of(task, start):
    engine = {"OpenVINO": OpenVino, "vLLM": Vllm}[task["engine"]](task)
    ids = random.Random(1)
    length = 4 if task["kind"] == "load" else max(task["prompt"], task["depth"], 1)
    prompts = [[ids.randrange(1000, 20000) for _ in range(length)]
               for _ in range(task["parallel"])]
    first = seconds_of(engine, prompts, 1)
    if task["kind"] == "load":
        return time.perf_counter() - start
    if task["kind"] == "memory":
        engine.generate(prompts, task["decoded"])
        return peak_mib()
    first = seconds_of(engine, prompts, 1)
    if task["kind"] == "prefill":
        return task["prompt"] / first
    more = seconds_of(engine, prompts, 1 + task["decoded"]) - first
    return task["parallel"] * task["decoded"] / more


def main():
    start = time.perf_counter()
    print(json.dumps({"value": value_of(json.loads(sys.argv[1]), start)}), flush=True)


if __name__ == "__main__":
    main()
