#include "server/metrics/server_metrics.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <cstdlib>
#include <iostream>
#include <map>
#include <optional>
#include <set>
#include <thread>

#include "support/exposition_reader.h"

namespace quire {
namespace {

MetricsLabels Labels() {
  return {.model_name = "tiny",
          .block_size = 16,
          .num_blocks = 1000,
          .cache_dtype = "f16",
          .context_length = 2048,
          .version = "1.2.3"};
}

std::string Key(const std::string& name, const std::string& more = "") {
  return name + "{engine=\"0\"" + (more.empty() ? "" : "," + more) + ",model_name=\"tiny\"}";
}

Choice ChoiceOf(int num_tokens, FinishReason reason) {
  Choice choice;
  choice.tokens.resize(num_tokens);
  choice.finish_reason = reason;
  return choice;
}

RequestResult ResultOf(int prompt, int cached, int completion,
                       FinishReason reason = FinishReason::kLength) {
  RequestResult result{.prompt_tokens = prompt, .cached_tokens = cached};
  result.choices.push_back(ChoiceOf(completion, reason));
  result.queue_ms = 100;
  result.first_token_ms = 600;
  result.decode_ms = 1200;
  result.total_ms = 1900;
  return result;
}

// Samples by name and labels, the labels in alphabetical order.
std::map<std::string, double> Scrape(const ServerMetrics& metrics, const EngineStatus& engine = {},
                                     const HttpCounters& http = {}) {
  const Exposition exposition = ReadExposition(metrics.Render(engine, http));
  EXPECT_EQ(exposition.fault, "");
  return exposition.samples;
}

TEST(ServerMetrics, AreWellFormedExpositionText) {
  MetricsLabels labels = Labels();
  labels.model_name = "we\"ird\\na\nme \xff";
  ServerMetrics metrics(labels);
  metrics.ObserveFirstToken(12);
  metrics.ObserveEnd(ResultOf(10, 0, 5), {});
  metrics.CountRefusal(429);
  const std::string text = metrics.Render({}, {});
  const Exposition exposition = ReadExposition(text);
  EXPECT_EQ(exposition.fault, "");
  EXPECT_GT(exposition.families.size(), 50u);
  EXPECT_NE(text.find("model_name=\"we\\\"ird\\\\na\\nme \xEF\xBF\xBD\""), std::string::npos);
}

TEST(ServerMetrics, BearVllmsNamesAndTypes) {
  const std::map<std::string, std::string> expected = {
      {"vllm:num_requests_running", "gauge"},
      {"vllm:num_requests_waiting", "gauge"},
      {"vllm:kv_cache_usage_perc", "gauge"},
      {"vllm:cache_config_info", "gauge"},
      {"vllm:prefix_cache_queries_total", "counter"},
      {"vllm:prefix_cache_hits_total", "counter"},
      {"vllm:external_prefix_cache_queries_total", "counter"},
      {"vllm:external_prefix_cache_hits_total", "counter"},
      {"vllm:spec_decode_num_drafts_total", "counter"},
      {"vllm:spec_decode_num_draft_tokens_total", "counter"},
      {"vllm:spec_decode_num_accepted_tokens_total", "counter"},
      {"vllm:spec_decode_num_accepted_tokens_per_pos_total", "counter"},
      {"vllm:num_preemptions_total", "counter"},
      {"vllm:prompt_tokens_total", "counter"},
      {"vllm:prompt_tokens_by_source_total", "counter"},
      {"vllm:prompt_tokens_cached_total", "counter"},
      {"vllm:generation_tokens_total", "counter"},
      {"vllm:request_success_total", "counter"},
      {"vllm:request_prompt_tokens", "histogram"},
      {"vllm:request_generation_tokens", "histogram"},
      {"vllm:request_max_num_generation_tokens", "histogram"},
      {"vllm:request_prefill_kv_computed_tokens", "histogram"},
      {"vllm:iteration_tokens_total", "histogram"},
      {"vllm:request_params_n", "histogram"},
      {"vllm:request_params_max_tokens", "histogram"},
      {"vllm:time_to_first_token_seconds", "histogram"},
      {"vllm:inter_token_latency_seconds", "histogram"},
      {"vllm:request_time_per_output_token_seconds", "histogram"},
      {"vllm:e2e_request_latency_seconds", "histogram"},
      {"vllm:request_queue_time_seconds", "histogram"},
      {"vllm:request_inference_time_seconds", "histogram"},
      {"vllm:request_prefill_time_seconds", "histogram"},
      {"vllm:request_decode_time_seconds", "histogram"}};
  const Exposition exposition = ReadExposition(ServerMetrics(Labels()).Render({}, {}));
  std::map<std::string, std::string> found;
  for (const auto& [name, type] : exposition.families) {
    if (name.starts_with("vllm:")) found[name] = type;
  }
  EXPECT_EQ(found, expected);
}

TEST(ServerMetrics, BearVllmsBuckets) {
  const auto samples = Scrape(ServerMetrics(Labels()));
  const auto has = [&](const std::string& name, const std::string& bound) {
    return samples.contains(name + "_bucket{engine=\"0\",le=\"" + bound +
                            "\",model_name=\"tiny\"}");
  };
  for (const char* bound : {"0.001", "0.06", "1.0", "640.0", "2560.0", "+Inf"}) {
    EXPECT_TRUE(has("vllm:time_to_first_token_seconds", bound)) << bound;
  }
  for (const char* bound : {"0.01", "0.025", "0.4", "80.0", "+Inf"}) {
    EXPECT_TRUE(has("vllm:inter_token_latency_seconds", bound)) << bound;
    EXPECT_TRUE(has("vllm:request_time_per_output_token_seconds", bound)) << bound;
  }
  for (const char* bound : {"0.3", "0.8", "7680.0", "+Inf"}) {
    EXPECT_TRUE(has("vllm:e2e_request_latency_seconds", bound)) << bound;
  }
  // 1, 2, 5, ... up to the context.
  EXPECT_TRUE(has("vllm:request_prompt_tokens", "2000.0"));
  EXPECT_FALSE(has("vllm:request_prompt_tokens", "5000.0"));
  EXPECT_TRUE(has("vllm:iteration_tokens_total", "16384.0"));
}

TEST(ServerMetrics, TellTheCacheConfiguration) {
  const auto samples = Scrape(ServerMetrics(Labels()));
  EXPECT_EQ(samples.at("vllm:cache_config_info{block_size=\"16\",cache_dtype=\"f16\","
                       "enable_prefix_caching=\"True\",engine=\"0\",num_gpu_blocks=\"1000\"}"),
            1);
}

TEST(ServerMetrics, CountThePromptsAndAnswersOfEndedRequests) {
  ServerMetrics metrics(Labels());
  for (const int prompt : {10, 20, 30}) metrics.ObserveEnd(ResultOf(prompt, prompt / 2, 5), {});
  const auto samples = Scrape(metrics);
  EXPECT_EQ(samples.at(Key("vllm:prompt_tokens_total")), 60);
  EXPECT_EQ(samples.at("vllm:prompt_tokens_by_source_total{engine=\"0\",model_name=\"tiny\","
                       "source=\"local_compute\"}"),
            30);
  EXPECT_EQ(samples.at("vllm:prompt_tokens_by_source_total{engine=\"0\",model_name=\"tiny\","
                       "source=\"local_cache_hit\"}"),
            30);
  EXPECT_EQ(samples.at(Key("vllm:generation_tokens_total")), 15);
  EXPECT_EQ(samples.at(Key("vllm:request_success_total", "finished_reason=\"length\"")), 3);
  EXPECT_EQ(samples.at(Key("vllm:request_success_total", "finished_reason=\"stop\"")), 0);
}

TEST(ServerMetrics, CountAnAbortedRequestAsFarAsItCame) {
  ServerMetrics metrics(Labels());
  metrics.ObserveEnd(ResultOf(10, 0, 3, FinishReason::kAborted), {});
  RequestResult never_ran = ResultOf(100, 0, 0, FinishReason::kAborted);
  never_ran.first_token_ms = 0;
  never_ran.queue_ms = never_ran.total_ms;
  metrics.ObserveEnd(never_ran, {});
  const auto samples = Scrape(metrics);
  EXPECT_EQ(samples.at(Key("vllm:prompt_tokens_total")), 10);
  EXPECT_EQ(samples.at(Key("vllm:generation_tokens_total")), 3);
  EXPECT_EQ(samples.at(Key("vllm:request_success_total", "finished_reason=\"abort\"")), 2);
  EXPECT_EQ(samples.at(Key("vllm:e2e_request_latency_seconds_count")), 2);
  EXPECT_EQ(samples.at(Key("vllm:request_prefill_time_seconds_count")), 1);
  EXPECT_EQ(samples.at(Key("vllm:request_queue_time_seconds_count")), 2);
  EXPECT_DOUBLE_EQ(samples.at(Key("vllm:request_queue_time_seconds_sum")), 2);
}

TEST(ServerMetrics, CountARequestOfSeveralChoicesOnce) {
  ServerMetrics metrics(Labels());
  RequestResult result = ResultOf(10, 0, 4, FinishReason::kStop);
  result.choices.push_back(ChoiceOf(7, FinishReason::kLength));
  metrics.ObserveEnd(result, {.num_choices = 2, .max_tokens = 7});
  const auto samples = Scrape(metrics);
  EXPECT_EQ(samples.at(Key("vllm:prompt_tokens_total")), 10);
  EXPECT_EQ(samples.at(Key("vllm:generation_tokens_total")), 11);
  EXPECT_EQ(samples.at(Key("vllm:request_success_total", "finished_reason=\"length\"")), 1);
  EXPECT_EQ(samples.at(Key("vllm:request_success_total", "finished_reason=\"stop\"")), 0);
  EXPECT_EQ(samples.at(Key("vllm:request_params_n_sum")), 2);
  EXPECT_EQ(samples.at(Key("vllm:request_params_max_tokens_sum")), 7);
  // 1.2 s for the six gaps of the longer one.
  EXPECT_DOUBLE_EQ(samples.at(Key("vllm:request_time_per_output_token_seconds_sum")), 0.2);
}

TEST(ServerMetrics, CountAnEmbeddingAsAPromptWithoutAnAnswer) {
  ServerMetrics metrics(Labels());
  RequestResult result{.prompt_tokens = 12};
  result.embedding = {1, 0};
  result.queue_ms = 100;
  result.total_ms = 300;
  metrics.ObserveEnd(result, {.embedding = Pooling::kMean});
  const auto samples = Scrape(metrics);
  EXPECT_EQ(samples.at(Key("vllm:prompt_tokens_total")), 12);
  EXPECT_EQ(samples.at(Key("vllm:request_success_total", "finished_reason=\"stop\"")), 1);
  EXPECT_DOUBLE_EQ(samples.at(Key("vllm:request_prefill_time_seconds_sum")), 0.2);
  EXPECT_EQ(samples.at(Key("vllm:request_generation_tokens_count")), 0);
}

TEST(ServerMetrics, PartARequestsTimeIntoQueuePrefillAndDecode) {
  ServerMetrics metrics(Labels());
  metrics.ObserveEnd(ResultOf(10, 0, 5), {});
  const auto samples = Scrape(metrics);
  EXPECT_DOUBLE_EQ(samples.at(Key("vllm:request_queue_time_seconds_sum")), 0.1);
  EXPECT_DOUBLE_EQ(samples.at(Key("vllm:request_prefill_time_seconds_sum")), 0.5);
  EXPECT_DOUBLE_EQ(samples.at(Key("vllm:request_decode_time_seconds_sum")), 1.2);
  EXPECT_DOUBLE_EQ(samples.at(Key("vllm:request_inference_time_seconds_sum")), 1.7);
  EXPECT_DOUBLE_EQ(samples.at(Key("vllm:e2e_request_latency_seconds_sum")), 1.9);
}

TEST(ServerMetrics, PutAValueOnABoundIntoTheBucketThatEndsThere) {
  ServerMetrics metrics(Labels());
  metrics.ObserveFirstToken(1000);
  metrics.ObserveStep(8);
  const auto samples = Scrape(metrics);
  const std::string name = "vllm:time_to_first_token_seconds_bucket{engine=\"0\",le=\"";
  EXPECT_EQ(samples.at(name + "0.75\",model_name=\"tiny\"}"), 0);
  EXPECT_EQ(samples.at(name + "1.0\",model_name=\"tiny\"}"), 1);
  EXPECT_EQ(samples.at("vllm:iteration_tokens_total_bucket{engine=\"0\",le=\"8.0\","
                       "model_name=\"tiny\"}"),
            1);
}

TEST(ServerMetrics, TellDraftsAndHowFarTheyWereAccepted) {
  ServerMetrics metrics(Labels());
  EngineStatus engine;
  engine.counters.drafts = {.drafts = 3, .draft_tokens = 20, .accepted = 5, .accepted_at = {3, 2}};
  const auto samples = Scrape(metrics, engine);
  EXPECT_EQ(samples.at(Key("vllm:spec_decode_num_drafts_total")), 3);
  EXPECT_EQ(samples.at(Key("vllm:spec_decode_num_draft_tokens_total")), 20);
  EXPECT_EQ(samples.at(Key("vllm:spec_decode_num_accepted_tokens_total")), 5);
  const auto at = [&](const std::string& place) {
    return "vllm:spec_decode_num_accepted_tokens_per_pos_total{engine=\"0\",model_name=\"tiny\","
           "position=\"" +
           place + "\"}";
  };
  EXPECT_EQ(samples.at(at("0")), 3);
  EXPECT_EQ(samples.at(at("1")), 2);
  EXPECT_FALSE(samples.contains(at("2")));
}

TEST(ServerMetrics, CountMissesByReason) {
  ServerMetrics metrics(Labels());
  EngineStatus engine;
  engine.counters.prefix_cache_queries = 60;
  engine.counters.prefix_cache_hits = 30;
  engine.counters.misses[static_cast<size_t>(MissReason::kNone)] = 5;
  engine.counters.misses[static_cast<size_t>(MissReason::kNeverSeen)] = 1;
  engine.counters.misses[static_cast<size_t>(MissReason::kEvicted)] = 2;
  const auto samples = Scrape(metrics, engine);
  EXPECT_EQ(samples.at(Key("vllm:prefix_cache_queries_total")), 60);
  EXPECT_EQ(samples.at(Key("vllm:prefix_cache_hits_total")), 30);
  const auto misses = [&](const std::string& reason) {
    return samples.at("quire_prefix_misses_total{engine=\"0\",model_name=\"tiny\",reason=\"" +
                      reason + "\"}");
  };
  EXPECT_EQ(misses("never_seen"), 1);
  EXPECT_EQ(misses("evicted"), 2);
  EXPECT_EQ(misses("differs"), 0);
  EXPECT_FALSE(samples.contains(
      "quire_prefix_misses_total{engine=\"0\",model_name=\"tiny\",reason=\"none\"}"));
}

TEST(ServerMetrics, ShowTheEngineAsOfTheScrape) {
  ServerMetrics metrics(Labels());
  EngineStatus engine;
  engine.num_running = 3;
  engine.num_waiting = 4;
  engine.kv = {.total_blocks = 100,
               .used_blocks = 25,
               .cached_blocks = 50,
               .free_blocks = 25,
               .block_bytes = 1000,
               .committed_bytes = 80'000};
  engine.num_pinned_blocks = 10;
  engine.counters.steps = 7;
  engine.batch_counters.preemptions = 2;
  auto samples = Scrape(metrics, engine, {.connections_open = 5, .connections_accepted = 9});
  EXPECT_EQ(samples.at(Key("vllm:num_requests_running")), 3);
  EXPECT_EQ(samples.at(Key("vllm:num_requests_waiting")), 4);
  EXPECT_EQ(samples.at(Key("vllm:kv_cache_usage_perc")), 0.25);
  EXPECT_EQ(samples.at(Key("vllm:num_preemptions_total")), 2);
  EXPECT_EQ(samples.at(Key("quire_kv_used_bytes")), 25'000);
  EXPECT_EQ(samples.at(Key("quire_kv_cached_bytes")), 50'000);
  EXPECT_EQ(samples.at(Key("quire_kv_free_bytes")), 25'000);
  EXPECT_EQ(samples.at(Key("quire_kv_committed_bytes")), 80'000);
  EXPECT_EQ(samples.at(Key("quire_kv_pinned_bytes")), 10'000);
  EXPECT_EQ(samples.at(Key("quire_steps_total")), 7);
  EXPECT_EQ(samples.at(Key("quire_http_connections")), 5);
  EXPECT_EQ(samples.at(Key("quire_http_connections_total")), 9);
  samples = Scrape(metrics, {}, {});
  EXPECT_EQ(samples.at(Key("vllm:num_requests_running")), 0);
  EXPECT_EQ(samples.at(Key("vllm:kv_cache_usage_perc")), 0);
}

TEST(ServerMetrics, NeverLetACounterFall) {
  ServerMetrics metrics(Labels());
  EngineStatus later;
  later.counters.steps = 10;
  EngineStatus earlier;
  earlier.counters.steps = 6;
  EXPECT_EQ(Scrape(metrics, later).at(Key("quire_steps_total")), 10);
  EXPECT_EQ(Scrape(metrics, earlier).at(Key("quire_steps_total")), 10);
  later.counters.steps = 11;
  EXPECT_EQ(Scrape(metrics, later).at(Key("quire_steps_total")), 11);
}

TEST(ServerMetrics, StayAsTheyAreWhileNothingHappens) {
  ServerMetrics metrics(Labels());
  metrics.ObserveEnd(ResultOf(10, 3, 5), {});
  metrics.CountRefusal(400);
  auto first = Scrape(metrics);
  auto second = Scrape(metrics);
  for (auto* samples : {&first, &second}) {
    std::erase_if(*samples,
                  [](const auto& sample) { return sample.first.starts_with("process_"); });
  }
  EXPECT_EQ(first, second);
}

TEST(ServerMetrics, CountRefusalsByStatus) {
  ServerMetrics metrics(Labels());
  for (const int status : {400, 429, 429}) metrics.CountRefusal(status);
  const auto samples = Scrape(metrics);
  EXPECT_EQ(samples.at("quire_refused_requests_total{engine=\"0\",model_name=\"tiny\","
                       "status=\"429\"}"),
            2);
}

TEST(ServerMetrics, TellWhatTheProcessTakes) {
  const auto samples = Scrape(ServerMetrics(Labels()));
  EXPECT_GT(samples.at(Key("process_resident_memory_bytes")), 1 << 20);
  EXPECT_GT(samples.at(Key("process_cpu_seconds_total")), 0);
  const auto now = static_cast<double>(time(nullptr));
  EXPECT_LE(samples.at(Key("process_start_time_seconds")), now + 1);
  EXPECT_GT(samples.at(Key("process_start_time_seconds")), now - 3600);
}

TEST(ServerMetrics, AreObservedAndScrapedFromSeveralThreads) {
  ServerMetrics metrics(Labels());
  constexpr int kRounds = 300;
  std::vector<std::thread> threads;
  for (int i = 0; i < 2; ++i) {
    threads.emplace_back([&] {
      for (int round = 0; round < kRounds; ++round) {
        metrics.ObserveTokenGap(20);
        metrics.ObserveEnd(ResultOf(10, 0, 5), {});
        metrics.CountRefusal(400 + round % 3);
      }
    });
  }
  EngineStatus engine;
  for (int i = 0; i < 20; ++i) {
    engine.counters.steps = i;
    metrics.Render(engine, {});
  }
  for (std::thread& thread : threads) thread.join();
  const auto samples = Scrape(metrics, engine);
  EXPECT_EQ(samples.at(Key("vllm:prompt_tokens_total")), 2 * kRounds * 10);
  EXPECT_EQ(samples.at(Key("vllm:inter_token_latency_seconds_count")), 2 * kRounds);
}

double MicrosecondsOf(int rounds, const std::function<void()>& work) {
  const auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < rounds; ++i) work();
  const std::chrono::duration<double, std::micro> spent = std::chrono::steady_clock::now() - start;
  return spent.count() / rounds;
}

// What each takes is printed; times decide nothing.
TEST(ServerMetrics, CountEverythingOfALongRun) {
  ServerMetrics metrics(Labels());
  const RequestResult result = ResultOf(10, 0, 5);
  const Request request;
  const double token_us = MicrosecondsOf(20'000, [&] { metrics.ObserveTokenGap(30); });
  const double end_us = MicrosecondsOf(2'000, [&] { metrics.ObserveEnd(result, request); });
  size_t size = 0;
  const double scrape_us = MicrosecondsOf(50, [&] { size = metrics.Render({}, {}).size(); });
  std::cout << "a token: " << token_us << " us, a request's end: " << end_us << " us, a scrape of "
            << size << " bytes: " << scrape_us << " us\n";
  const auto samples = Scrape(metrics, {});
  EXPECT_EQ(samples.at(Key("vllm:inter_token_latency_seconds_count")), 20'000);
  EXPECT_EQ(samples.at(Key("vllm:generation_tokens_total")), 2'000 * 5);
}

// The reader is strict: it finds what a scrape must not hold.
TEST(ExpositionReader, FindsFaults) {
  const std::string head = "# HELP a x\n# TYPE a counter\n";
  EXPECT_EQ(ReadExposition(head + "a 1\n").fault, "");
  for (const std::string& text :
       {head + "a 1", head + "a one\n", head + "a -1\n", head + "b 1\n", head + "a{x=1} 1\n",
        head + "a{x=\"1\",x=\"2\"} 1\n", head + "a 1\na 1\n", head + "a{x=\"\\q\"} 1\n",
        head + "a{x=\"1\"\n", head + "1a 1\n", head + head, std::string("a 1\n"),
        std::string("# TYPE h histogram\nh_bucket{le=\"1.0\"} 2\nh_bucket{le=\"+Inf\"} 1\n"
                    "h_sum 1\nh_count 1\n"),
        std::string("# TYPE h histogram\nh_bucket{le=\"1.0\"} 1\nh_sum 1\nh_count 1\n"),
        std::string("# TYPE h histogram\nh_bucket{le=\"+Inf\"} 1\nh_sum 1\nh_count 2\n")}) {
    EXPECT_NE(ReadExposition(text).fault, "") << text;
  }
}

}  // namespace
}  // namespace quire
