"""`--kv-disk` and `quire cache` as a shell meets them, over a tiny model.

    python3 cache_test.py PATH_TO_QUIRE PATH_TO_TESTS [unittest arguments]
"""

import json
import os
import pathlib
import pty
import random
import shutil
import subprocess
import sys
import tempfile
import unittest
import urllib.request

QUIRE = str(pathlib.Path(sys.argv[1]).resolve())
TESTS = pathlib.Path(sys.argv[2])
sys.path.insert(0, str(TESTS / "support"))

from serve_process import ServeProcess  # noqa: E402

MODELS = TESTS / "golden" / "models"
TINY = MODELS / "tiny-llama.gguf"
OTHER = MODELS / "tiny-qwen2.gguf"
GROUPED = MODELS / "tiny-gemma3.gguf"  # layers in several groups
BLOCK = 16
PROMPT = "The first of all prefixes is one that everybody knows: " + "and so it goes on. " * 12
KEY = "0123456789abcdef" * 4


class CacheCase(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.folder = pathlib.Path(scratch.name)
        self.store = self.folder / "kv"
        self.packs = self.folder / "cache"
        self.environment = {name: value for name, value in os.environ.items()
                            if name != "QUIRE_KV_REDIS"} | {"QUIRE_CACHE": str(self.packs)}

    def quire(self, *arguments, code=0, text=None, environment=None):
        result = subprocess.run([QUIRE, *map(str, arguments)], capture_output=True, text=True,
                                input=text, timeout=120,
                                env=self.environment | (environment or {}))
        self.assertEqual(result.returncode, code, (arguments, result.stdout, result.stderr))
        return result

    def run_once(self, *flags, prompt=PROMPT, model=TINY, store=None, **options):
        result = self.quire("run", model, "--raw", "-p", prompt, "-n", 4, "--temp", 0, "--json",
                            "--kv-disk", store or self.store, *flags, **options)
        return json.loads(result.stdout)

    def cached(self, answer):
        return answer["usage"]["prompt_tokens_details"]["cached_tokens"]

    def whole_blocks(self, answer):
        return (answer["usage"]["prompt_tokens"] - 1) // BLOCK * BLOCK

    def cache(self, verb, *arguments, store=None, **options):
        result = self.quire("cache", verb, *arguments, "--kv-disk", store or self.store, "--json",
                            **options)
        return json.loads(result.stdout)

    def key_file(self, key=KEY, mode=0o600, name="keys"):
        path = self.folder / name
        path.write_text(f"# of a test\n{key}\n")
        path.chmod(mode)
        return path

    def num_records(self, store=None):
        return sum(model["records"] for model in self.cache("stats", store=store)["models"])

    def slab(self):
        return max(self.store.glob("*.slab"), key=lambda path: path.stat().st_size)


class RunTest(CacheCase):
    def test_a_second_process_finds_what_the_first_has_computed(self):
        cold = self.run_once()
        warm = self.run_once()
        self.assertEqual(self.cached(cold), 0)
        self.assertEqual(self.cached(warm), self.whole_blocks(warm))
        self.assertEqual(warm["usage"]["cached_by_tier"],
                         {"memory": 0, "disk": self.cached(warm), "remote": 0})
        self.assertEqual(warm["tokens"], cold["tokens"])
        self.assertEqual(self.store.stat().st_mode & 0o777, 0o700)

    def test_other_lengths_of_a_prefix_hit_as_far_as_they_agree(self):
        self.run_once()
        longer = self.run_once(prompt=PROMPT + "Then it ends otherwise.")
        self.assertGreater(self.cached(longer), 10 * BLOCK)
        self.assertEqual(self.cached(self.run_once(prompt="Nothing of the kind" * 10)), 0)

    def test_a_model_whose_layers_are_in_groups_hits_too(self):
        cold = self.run_once(model=GROUPED)
        warm = self.run_once(model=GROUPED)
        self.assertGreater(self.cached(warm), 0)
        self.assertEqual(warm["tokens"], cold["tokens"])

    def test_without_the_flag_nothing_is_kept(self):
        self.quire("run", TINY, "--raw", "-p", PROMPT, "-n", 1)
        self.assertFalse(self.store.exists())
        self.assertFalse((self.packs / "kv").exists())

    def test_a_batch_reads_and_writes_the_same_store(self):
        self.run_once()
        requests = self.folder / "requests.jsonl"
        requests.write_text(json.dumps({"prompt": PROMPT, "max_tokens": 2}) + "\n")
        summary = json.loads(self.quire("batch", TINY, requests, "--json", "--kv-disk",
                                        self.store).stdout)
        self.assertGreater(summary["cached_tokens"], 10 * BLOCK)

    def test_a_second_writer_is_refused_and_a_reader_is_not(self):
        self.run_once()
        with ServeProcess(QUIRE, TINY, "--kv-disk", self.store,
                          environment=self.environment) as server:
            refused = self.quire("run", TINY, "-p", "x", "-n", 1, "--kv-disk", self.store, code=5)
            self.assertIn(str(server.pid), refused.stderr)
            self.assertIn("--kv-disk-read-only", refused.stderr)
            beside = self.run_once("--kv-disk-read-only")
            self.assertEqual(self.cached(beside), self.whole_blocks(beside))
            self.assertGreater(self.num_records(), 0)
            self.assertEqual(self.cache("verify")["bad"], 0)
            for verb in (["gc"], ["rm", "--all", "-y"]):
                held = self.quire("cache", *verb, "--kv-disk", self.store, code=5)
                self.assertIn(str(server.pid), held.stderr)

    def test_a_server_writes_at_its_end_what_it_has_computed(self):
        body = {"prompt": PROMPT, "max_tokens": 2, "temperature": 0}
        with ServeProcess(QUIRE, TINY, "--kv-disk", self.store,
                          environment=self.environment) as server:
            request = urllib.request.Request(server.url + "/v1/completions",
                                             json.dumps(body).encode(),
                                             {"Content-Type": "application/json"})
            with urllib.request.urlopen(request, timeout=60) as reply:
                self.assertEqual(reply.status, 200)
        warm = self.run_once()
        self.assertEqual(self.cached(warm), self.whole_blocks(warm))

    def test_a_configuration_file_has_the_keys(self):
        config = self.folder / "serve.toml"
        config.write_text(f'model = "{TINY}"\nport = 0\nkv-disk = "{self.store}"\n'
                          'kv-disk-max = "4MiB"\nkv-disk-min-free = "0"\n')
        with ServeProcess(QUIRE, TINY, "--config", config, environment=self.environment):
            pass
        self.assertTrue(self.store.exists())


class FlagsTest(CacheCase):
    def test_bad_values_are_refused_with_what_is_right(self):
        disk = ["--kv-disk", self.store]
        redis = ["--kv-redis", "redis://u:secret@127.0.0.1:1/0"]
        for flags, word in ((disk + ["--kv-disk-max", "20G"], "GiB"),
                            (disk + ["--kv-disk-max", "1B"], "1MiB"),
                            (disk + ["--kv-disk-min-free", "x"], "--kv-disk-min-free"),
                            (disk + ["--kv-encrypt"], "--kv-key-file"),
                            (["--kv-disk-read-only"], "--kv-disk"),
                            (["--kv-tenant-max", "-1"], "--kv-tenant-max"),
                            (redis, "--kv-trust-remote"),
                            (redis + ["--kv-trust-remote", "--kv-redis-ttl", "-1"], "kv-redis-ttl"),
                            (redis + ["--kv-trust-remote", "--kv-redis-ttl", ".5"], "kv-redis-ttl"),
                            (["--kv-redis", "http://u:secret@h"], "redis://")):
            with self.subTest(flags=flags):
                result = self.quire("run", TINY, "-p", "x", "-n", 1, *flags, code=2)
                self.assertIn(word, result.stderr)
                self.assertNotIn("secret", result.stderr)

    def test_the_variable_is_as_the_flag(self):
        result = self.quire("run", TINY, "-p", "x", "-n", 1, code=2,
                            environment={"QUIRE_KV_REDIS": "redis://:secret@127.0.0.1:1"})
        self.assertIn("QUIRE_KV_REDIS", result.stderr)
        self.assertNotIn("secret", result.stderr)
        self.quire("run", TINY, "-p", "x", "-n", 1, "--kv-redis", "",
                   environment={"QUIRE_KV_REDIS": "redis://:secret@127.0.0.1:1"})

    def test_a_server_that_is_not_there_is_no_error(self):
        answer = self.quire("run", TINY, "--raw", "-p", PROMPT, "-n", 2, "--kv-redis",
                            "redis://u:secret@127.0.0.1:1", "--kv-trust-remote")
        self.assertNotIn("secret", answer.stderr + answer.stdout)

    def test_a_key_file_is_its_owners_alone(self):
        for path, code, word in ((self.key_file(mode=0o644), 2, "chmod 600"),
                                 (self.key_file(key="abc", name="short"), 2, "short"),
                                 (self.folder / "none", 3, "none")):
            result = self.quire("run", TINY, "-p", "x", "-n", 1, "--kv-disk", self.store,
                                "--kv-key-file", path, code=code)
            self.assertIn(word, result.stderr)

    def test_a_directory_for_others_needs_a_key_or_trust(self):
        self.store.mkdir()
        self.store.chmod(0o777)
        refused = self.quire("run", TINY, "-p", "x", "-n", 1, "--kv-disk", self.store, code=2)
        self.assertIn("chmod 700", refused.stderr)
        self.run_once("--kv-trust-remote")
        warm = self.run_once("--kv-trust-remote")
        self.assertEqual(self.cached(warm), self.whole_blocks(warm))

    def test_what_one_key_has_sealed_no_other_opens(self):
        key = ["--kv-key-file", self.key_file()]
        cold = self.run_once(*key, "--kv-encrypt")
        self.assertEqual(self.cached(self.run_once(*key, "--kv-encrypt")), self.whole_blocks(cold))
        other = self.key_file(key="f" * 64, name="other")
        self.assertEqual(self.cached(self.run_once("--kv-key-file", other)), 0)
        # Without the key nothing is found either, and the answers are right.
        plain = self.run_once(store=shutil.copytree(self.store, self.folder / "copy"))
        self.assertEqual((self.cached(plain), plain["tokens"]), (0, cold["tokens"]))


class ReadTest(CacheCase):
    def test_a_directory_that_is_not_there_is_told(self):
        result = self.quire("cache", "ls", "--kv-disk", self.store, code=3)
        self.assertIn("--kv-disk", result.stderr)

    def test_the_default_is_in_the_cache_directory(self):
        self.run_once(store=self.packs / "kv")
        stats = json.loads(self.quire("cache", "stats", "--json").stdout)
        self.assertEqual(stats["directory"], str(self.packs / "kv"))
        self.assertGreater(stats["models"][0]["records"], 0)

    def test_stats_part_models(self):
        answer = self.run_once()
        self.run_once(model=OTHER)
        self.run_once("--kv-type", "bf16")
        stats = self.cache("stats")
        self.assertEqual(len(stats["models"]), 3)
        self.assertEqual(sorted(m["kv_type"] for m in stats["models"]), ["bf16", "f16", "f16"])
        mine = json.loads(self.quire("cache", "stats", self.store, "--json", "--model",
                                     TINY).stdout)["models"]
        self.assertEqual(len(mine), 2)
        self.assertEqual({m["weights"] for m in mine}, {mine[0]["weights"]})
        for model in mine:
            self.assertGreaterEqual(model["tokens"], self.whole_blocks(answer))
        on_disk = sum(path.stat().st_size for path in self.store.iterdir())
        self.assertGreaterEqual(stats["bytes"], on_disk)
        self.assertIn(mine[0]["fingerprint"][:16], self.quire("cache", "stats", self.store).stdout)

    def test_ls_shows_how_prefixes_begin_and_end(self):
        self.run_once()
        self.run_once(prompt="Something else altogether, " * 6)
        prefixes = self.cache("ls", "--model", TINY)["prefixes"]
        begins = {prefix["text_begin"][:20] for prefix in prefixes}
        self.assertEqual(len(prefixes), 2)
        self.assertTrue(any(PROMPT.startswith(begin.strip()) for begin in begins), begins)
        self.assertEqual([p["last_use"] for p in prefixes],
                         sorted((p["last_use"] for p in prefixes), reverse=True))
        for prefix in prefixes:
            self.assertTrue(prefix["is_whole"])
            self.assertEqual(prefix["tokens"] % BLOCK, 0)
        self.assertIn("more", self.quire("cache", "ls", self.store, "--limit", 1).stdout)
        without = self.cache("ls")["prefixes"][0]
        self.assertIsNone(without["text_begin"])
        self.assertIn("--model", without["no_text"])

    def test_ls_counts_hits(self):
        self.run_once()
        hits = [self.cache("ls")["prefixes"][0]["hits"]]
        for _ in range(2):
            self.run_once()
            hits.append(self.cache("ls")["prefixes"][0]["hits"])
        self.assertEqual(hits, sorted(set(hits)))

    def test_texts_of_an_encrypted_store_need_the_key(self):
        key = self.key_file()
        self.run_once("--kv-key-file", key, "--kv-encrypt")
        hidden = self.cache("ls", "--model", TINY)["prefixes"]
        self.assertTrue(all(p["text_begin"] is None and "--kv-key-file" in p["no_text"]
                            for p in hidden))
        shown = self.cache("ls", "--model", TINY, "--kv-key-file", key)["prefixes"]
        self.assertTrue(any(p["text_begin"] and PROMPT.startswith(p["text_begin"].strip()[:20])
                            for p in shown))
        self.assertNotIn(b"first of all", b"".join(p.read_bytes() for p in self.store.iterdir()))

    def test_verify_finds_a_flipped_bit_and_gc_removes_the_record(self):
        cold = self.run_once()
        self.assertEqual(self.cache("verify")["bad"], 0)
        # In the middle of a record's payload.
        before = self.num_records()
        data = bytearray(self.slab().read_bytes())
        second = data.index(b"\x89QKV", 1)
        data[second + 700] ^= 4
        self.slab().write_bytes(data)
        result = self.quire("cache", "verify", self.store, "--json", code=3)
        found = json.loads(result.stdout)
        self.assertEqual((found["records"], found["bad"]), (before, 1))
        self.assertEqual(found["faults"][0]["fault"], "checksum")
        self.assertIn("checksum", self.quire("cache", "verify", self.store, code=3).stdout)
        self.cache("gc")
        self.assertEqual(self.num_records(), before - 1)
        self.assertEqual(self.cache("verify")["bad"], 0)
        again = self.run_once()
        self.assertEqual(again["tokens"], cold["tokens"])
        self.assertLess(self.cached(again), self.whole_blocks(again))

    def test_a_damaged_bit_anywhere_changes_no_answer(self):
        cold = self.run_once()
        clean = self.slab().read_bytes()
        generator = random.Random(7)
        for _ in range(8):
            data = bytearray(clean)
            data[generator.randrange(len(data))] ^= 1 << generator.randrange(8)
            self.slab().write_bytes(data)
            self.assertEqual(self.run_once("--kv-disk-read-only")["tokens"], cold["tokens"])


class WriteTest(CacheCase):
    def test_rm_keeps_what_other_prefixes_begin_with(self):
        self.run_once(prompt=PROMPT + "One end of it, " * 4)
        self.run_once(prompt=PROMPT + "another end, " * 4)
        first, second = self.cache("ls")["prefixes"]
        self.cache("rm", second["id"][:12], "-y")
        left = self.cache("ls")["prefixes"]
        self.assertEqual([p["id"] for p in left], [first["id"]])
        self.assertEqual(left[0]["tokens"], first["tokens"])
        self.assertEqual(self.num_records(), first["tokens"] // BLOCK)

    def test_rm_by_id_removes_the_blocks_of_all_groups(self):
        self.run_once(model=GROUPED)
        self.cache("rm", *(p["id"] for p in self.cache("ls")["prefixes"]), "-y")
        self.assertEqual(self.num_records(), 0)

    def test_rm_by_model_and_by_age(self):
        self.run_once()
        self.run_once(model=OTHER)
        self.assertEqual(self.cache("rm", "--older-than", "1h", "-y")["removed"], 0)
        self.cache("rm", "--model", OTHER, "-y")
        self.assertEqual(self.cached(self.run_once(model=OTHER)), 0)
        self.assertGreater(self.cached(self.run_once()), 0)
        self.cache("rm", "--older-than", "0s", "-y")
        self.assertEqual(self.num_records(), 0)

    def test_rm_wants_to_be_told_what(self):
        self.run_once()
        for arguments, code in (([], 2), (["abc"], 3), (["ffff" * 16], 3),
                                (["--older-than", "7"], 2), (["--model", "nothing"], 3)):
            self.quire("cache", "rm", *arguments, "--kv-disk", self.store, "-y", code=code)
        self.assertGreater(self.num_records(), 0)

    def test_rm_asks_on_a_terminal(self):
        self.run_once()
        for answer, removed in ((b"n\n", False), (b"y\n", True)):
            leader, follower = pty.openpty()
            process = subprocess.Popen([QUIRE, "cache", "rm", "--all", "--kv-disk", self.store],
                                       stdin=follower, stdout=subprocess.PIPE,
                                       stderr=subprocess.PIPE, env=self.environment)
            os.write(leader, answer)
            stderr = process.communicate(timeout=60)[1]
            os.close(leader)
            os.close(follower)
            self.assertIn(b"[y/N]", stderr)
            self.assertEqual(self.num_records() == 0, removed)

    def test_gc_keeps_to_a_cap_and_to_one_model(self):
        self.run_once(prompt=PROMPT * 3)
        self.run_once(model=OTHER)
        fingerprint = self.cache("stats", "--model", TINY)["models"][0]["fingerprint"]
        before = self.cache("stats")["bytes"]
        kept = self.cache("gc", "--keep", fingerprint[:16])
        self.assertEqual([m["fingerprint"] for m in self.cache("stats")["models"]], [fingerprint])
        self.assertEqual(kept["bytes"] + kept["bytes_freed"], before)
        cap = kept["bytes"] // 2
        self.assertLessEqual(self.cache("gc", "--max", f"{cap}B")["bytes"], cap)
        self.assertGreater(self.num_records(), 0)
        self.quire("cache", "gc", "--keep", "abcd", "--kv-disk", self.store, code=3)
        self.assertGreater(self.num_records(), 0)

    def test_files_removed_by_hand_are_a_miss(self):
        cold = self.run_once()
        for path in self.store.glob("*"):
            path.unlink()
        again = self.run_once()
        self.assertEqual((self.cached(again), again["tokens"]), (0, cold["tokens"]))

    def test_a_cap_holds(self):
        for number in range(6):
            self.run_once("--kv-disk-max", "1MiB", prompt=f"{number} {PROMPT}" * 3)
            taken = sum(path.stat().st_blocks * 512 for path in self.store.iterdir())
            self.assertLessEqual(taken, 1 << 20)


class CarryTest(CacheCase):
    def setUp(self):
        super().setUp()
        self.file = self.folder / "prefixes.quirekv"
        self.second = self.folder / "second"

    def test_what_is_exported_is_found_elsewhere(self):
        cold = self.run_once()
        exported = self.cache("export", self.file, "--all")
        self.assertEqual(exported["records"], self.num_records())
        refused = self.quire("cache", "import", self.file, "--kv-disk", self.second, code=2)
        self.assertIn("--kv-trust-remote", refused.stderr)
        imported = self.cache("import", self.file, "--kv-trust-remote", store=self.second)
        self.assertEqual((imported["added"], imported["bad"]), (exported["records"], 0))
        self.assertTrue(imported["is_whole"])
        self.assertEqual(self.second.stat().st_mode & 0o777, 0o700)
        warm = self.run_once(store=self.second)
        self.assertEqual(self.cached(warm), self.whole_blocks(cold))
        self.assertEqual(warm["tokens"], cold["tokens"])
        self.assertEqual(self.cache("import", self.file, "--kv-trust-remote",
                                    store=self.second)["held"], exported["records"])
        self.assertEqual(len(self.cache("ls", store=self.second)["prefixes"]), 1)

    def test_a_directory_without_a_name_is_refused(self):
        refused = self.quire("run", TINY, "-p", "hi", "-n", "1", "--kv-disk", "", code=2)
        self.assertIn("expected a directory", refused.stderr)

    def test_what_others_may_have_written_gets_no_seal(self):
        self.run_once()
        self.store.chmod(0o755)
        refused = self.quire("cache", "export", self.file, "--all", "--kv-disk", self.store, code=2)
        self.assertIn("chmod 700", refused.stderr)
        keyed = self.quire("cache", "export", self.file, "--all", "--kv-disk", self.store,
                           "--kv-key-file", self.key_file(), code=3)
        self.assertIn("0 records", keyed.stdout)

    def test_a_sealed_file_needs_its_key(self):
        key = ["--kv-key-file", self.key_file()]
        cold = self.run_once(*key, "--kv-encrypt")
        self.assertTrue(self.cache("export", self.file, "--all", *key)["sealed"])
        self.assertNotIn(b"first of all", self.file.read_bytes())
        other = self.key_file(key="f" * 64, name="other")
        foreign = self.quire("cache", "import", self.file, "--kv-disk", self.second,
                             "--kv-key-file", other, code=2)
        self.assertIn("key file", foreign.stderr)
        self.quire("cache", "import", self.file, "--kv-disk", self.second, "--kv-trust-remote",
                   code=3)
        self.assertEqual(self.num_records(store=self.second), 0)
        self.cache("import", self.file, *key, store=self.second)
        listed = self.cache("ls", "--model", TINY, *key, store=self.second)["prefixes"]
        self.assertEqual([p["tokens"] for p in listed if p["is_whole"]],
                         [p["tokens"] for p in self.cache("ls")["prefixes"]])
        warm = self.run_once(*key, "--kv-encrypt", store=self.second)
        self.assertEqual(self.cached(warm), self.whole_blocks(cold))

    def test_an_encrypted_store_is_not_exported_without_its_key(self):
        self.run_once("--kv-key-file", self.key_file(), "--kv-encrypt")
        refused = self.quire("cache", "export", self.file, "--all", "--kv-disk", self.store, code=2)
        self.assertIn("--kv-key-file", refused.stderr)
        self.assertFalse(self.file.exists())

    def test_a_prefix_is_chosen_by_its_text(self):
        self.run_once()
        self.run_once(prompt="Something else altogether, " * 6)
        text = max((p["text_begin"] for p in self.cache("ls", "--model", TINY)["prefixes"]
                    if "Some" in p["text_begin"]), key=len)[:12]
        some = self.cache("export", self.file, "--prefix", text, "--model", TINY)["records"]
        self.assertGreater(some, 0)
        self.assertLess(some, self.num_records())
        for arguments, code in ((["--prefix", "Nothing like it", "--model", TINY], 3),
                                (["--prefix", text], 2), ([], 2)):
            self.quire("cache", "export", self.file, *arguments, "--kv-disk", self.store, code=code)

    def test_a_damaged_file_gives_what_is_right_and_says_so(self):
        self.run_once()
        records = self.cache("export", self.file, "--all")["records"]
        clean = self.file.read_bytes()
        self.file.write_bytes(clean[:len(clean) * 2 // 3])
        cut = json.loads(self.quire("cache", "import", self.file, "--kv-trust-remote", "--json",
                                    "--kv-disk", self.second, code=3).stdout)
        self.assertFalse(cut["is_whole"])
        self.assertTrue(0 < cut["added"] < records, cut)
        self.assertEqual(self.cache("verify", store=self.second)["bad"], 0)
        self.file.write_bytes(b"no such file at all")
        self.quire("cache", "import", self.file, "--kv-trust-remote", "--kv-disk", self.second,
                   code=3)

    def test_an_import_keeps_to_the_cap(self):
        self.run_once(prompt=PROMPT * 3)
        self.cache("export", self.file, "--all")
        self.quire("cache", "import", self.file, "--kv-trust-remote", "--kv-disk", self.second,
                   "--max", "64KiB", code=4)
        taken = sum(path.stat().st_blocks * 512 for path in self.second.iterdir())
        self.assertLessEqual(taken, 64 << 10)


class WarmTest(CacheCase):
    def test_prompts_are_there_when_they_are_asked_for(self):
        prompts = self.folder / "prompts.txt"
        chat = {"messages": [{"role": "user", "content": "Hi there. " * 10}]}
        prompts.write_text(f"{PROMPT}\n" + json.dumps({"prompt": "In a body. " * 10}) + "\n" +
                           json.dumps(chat) + "\n")
        has_template = self.quire("run", TINY, "-p", "x", "-n", 1).stderr.find("--raw") < 0
        lines = 3 if has_template else 2
        first = json.loads(self.quire("cache", "warm", prompts, "--model", TINY, "--kv-disk",
                                      self.store, "--json", code=0 if has_template else 3).stdout)
        self.assertEqual((first["prompts"], first["refused"]), (lines, 3 - lines))
        self.assertEqual(first["found"]["disk"], 0)
        again = json.loads(self.quire("cache", "warm", prompts, "--model", TINY, "--kv-disk",
                                      self.store, "--json", code=0 if has_template else 3).stdout)
        self.assertGreater(again["found"]["disk"], again["computed"])
        warm = self.run_once()
        self.assertEqual(self.cached(warm), self.whole_blocks(warm))

    def test_bad_lines_are_told_and_the_rest_is_done(self):
        result = self.quire("cache", "warm", "-", "--model", TINY, "--kv-disk", self.store,
                            "--json", text='{"prompt":\n' + PROMPT + "\n" + "x " * 9000 + "\n",
                            code=3)
        self.assertEqual(json.loads(result.stdout)["prompts"], 1)
        self.assertIn("line 1", result.stderr)
        self.assertIn("line 3", result.stderr)

    def test_more_than_memory_holds_is_stored_all_the_same(self):
        prompts = [f"{number} {PROMPT}" for number in range(12)]
        self.quire("cache", "warm", "-", "--model", TINY, "--kv-disk", self.store, "--ctx-size",
                   512, "--kv-size", "128KiB", text="".join(p + "\n" for p in prompts))
        for prompt in prompts:
            warm = self.run_once(prompt=prompt)
            self.assertEqual(self.cached(warm), self.whole_blocks(warm))


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]])
