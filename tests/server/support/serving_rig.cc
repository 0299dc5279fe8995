#include "server/support/serving_rig.h"

#include <chrono>
#include <cstdlib>
#include <thread>
#include <utility>

#include "base/utf8.h"
#include "server/routes/routes.h"

namespace quire::testing {
namespace {

constexpr const char* kTemplate = "{% for message in messages %}{{ message.content }}{% endfor %}";

// GPT-2's way of writing bytes as letters.
std::string ByteLetters(const std::string& bytes) {
  std::string letters;
  for (const char c : bytes) {
    const auto byte = static_cast<uint8_t>(c);
    const auto is_plain = [](int b) {
      return (b >= '!' && b <= '~') || (b >= 0xA1 && b <= 0xAC) || b >= 0xAE;
    };
    uint32_t code = byte;
    if (!is_plain(byte)) {
      code = 256;
      for (int b = 0; b < byte; ++b) code += is_plain(b) ? 0 : 1;
    }
    if (code < 0x80) {
      letters += static_cast<char>(code);
    } else {
      letters += static_cast<char>(0xC0 | (code >> 6));
      letters += static_cast<char>(0x80 | (code & 0x3F));
    }
  }
  return letters;
}

std::unique_ptr<Engine> MakeEngine(const std::filesystem::path& model, EngineOptions options) {
  if (options.runner.num_threads == 0) options.runner.num_threads = 1;
  auto engine = Engine::Create(model, options);
  if (!engine.ok()) {
    ADD_FAILURE() << engine.error().message;
    std::abort();
  }
  return std::move(engine).value();
}

}  // namespace

// The network thread.
class ServingRig::GatedQueue : public TaskQueue {
 public:
  explicit GatedQueue(Gate& gate) : gate_(gate) {}
  void Post(std::function<void()> task) override {
    thread_.Post([this, task = std::move(task)] {
      gate_.Pass();
      task();
    });
  }

 private:
  Gate& gate_;
  TextPool thread_{1};
};

ServingRig::ServingRig(const std::filesystem::path& model, RigOptions options)
    : tenants_(std::move(options.tenants)),
      log_(std::make_unique<ServerLog>(options.log)),
      metrics_({.model_name = "rig", .context_length = 512}) {
  options.engine.trace = &live_;
  auto engine = MakeEngine(model, options.engine);
  engine->SetStepObserver([this](const StepReport&) { steps_.Pass(); });
  options.limits.body.vocab_size = engine->vocab_size();
  engine_ = std::make_unique<EngineThread>(std::move(engine));
  network_ = std::make_unique<GatedQueue>(network_gate_);
  text_ = std::make_unique<TextPool>(2);
  const auto post_after = [this](std::chrono::milliseconds, std::function<void()> task) {
    const std::scoped_lock lock(mutex_);
    timers_.push_back(std::move(task));
  };
  live_.Open({.text = text_.get(), .post_after = post_after});
  context_ = std::make_unique<ServerContext>(
      ServerContext{.engine = *engine_,
                    .network = *network_,
                    .text = *text_,
                    .metrics = metrics_,
                    .live = live_,
                    .tenants = tenants_,
                    .log = *log_,
                    .model = {.id = "rig", .aliases = {"other-name"}, .created = 7},
                    .limits = options.limits,
                    .post_after = post_after});
  router_ = std::make_unique<Router>(*context_, RouterOptions{});
  AddCompletionRoutes(*router_, *context_);
  AddRenderRoutes(*router_, *context_);
  AddEmbeddingRoutes(*router_, *context_);
  AddLiveRoutes(*router_, *context_);
  AddGraphRoutes(*router_, *context_);
  engine_->Start();
}

ServingRig::~ServingRig() {
  steps_.Open();
  network_gate_.Open();
  engine_->Stop();
  text_.reset();
  network_.reset();
}

void ServingRig::EndLog() {
  engine_->Stop();
  text_.reset();
  network_.reset();
  log_.reset();
}

std::shared_ptr<FakeClient> ServingRig::Send(HttpRequest request) {
  auto [exchange, client] = MakeFakeExchange();
  router_->Handle(std::move(request), std::move(exchange));
  return client;
}

std::shared_ptr<FakeClient> ServingRig::Post(const std::string& path, const std::string& body,
                                             HttpHeaders headers) {
  return Send({.method = "POST", .path = path, .headers = std::move(headers), .body = body});
}

std::shared_ptr<FakeClient> ServingRig::Ask(const std::string& path, const std::string& body,
                                            HttpHeaders headers) {
  auto client = Post(path, body, std::move(headers));
  EXPECT_TRUE(client->WaitForEnd()) << "no answer to " << body;
  EXPECT_FALSE(client->was_given_up()) << body;
  return client;
}

void ServingRig::RunTimers() {
  std::vector<std::function<void()>> timers;
  {
    const std::scoped_lock lock(mutex_);
    timers.swap(timers_);
  }
  for (auto& timer : timers) network_->Post(std::move(timer));
}

size_t ServingRig::num_timers() const {
  const std::scoped_lock lock(mutex_);
  return timers_.size();
}

void ServingRig::OnEngine(const EngineThread::Task& task) {
  Gate done;
  done.Shut();
  engine_->Post([&](Engine& engine) {
    task(engine);
    done.Open();
  });
  done.Pass();
}

bool ServingRig::WaitUntilIdle() {
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (std::chrono::steady_clock::now() < end) {
    bool is_idle = false;
    OnEngine([&](Engine& engine) {
      engine.CheckInvariants();
      is_idle = engine.num_running() + engine.num_waiting() == 0 &&
                engine.cache().usage().used_blocks == 0;
    });
    if (is_idle) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return false;
}

double ServingRig::Metric(const std::string& name) const {
  const std::string text = metrics_.Render(engine_->status(), {});
  size_t at = text.find("\n" + name + "{");
  if (at == std::string::npos) return -1;
  at = text.find("} ", at);
  return std::strtod(text.c_str() + at + 2, nullptr);
}

void WriteScriptModel(const std::filesystem::path& path, const std::vector<std::string>& pieces,
                      bool repeats, const std::string& chat_template) {
  std::vector<RigToken> tokens = {{"<end>", true}, {"?"}};
  for (const std::string& piece : pieces) tokens.push_back({ByteLetters(piece)});
  std::vector<std::vector<float>> logits(tokens.size(), std::vector<float>(tokens.size(), 0.0f));
  for (size_t i = 1; i < tokens.size(); ++i) {
    const size_t next = i + 1 < tokens.size() ? i + 1 : repeats ? 2 : 0;
    logits[i][next] = 40;
  }
  WriteMarkovModel(path, tokens, logits, chat_template.empty() ? kTemplate : chat_template);
}

void WriteLettersModel(const std::filesystem::path& path) {
  std::vector<RigToken> tokens = {{"<end>", true}, {"?"}};
  for (char letter = 'a'; letter <= 'z'; ++letter) tokens.push_back({std::string(1, letter)});
  std::vector<float> row(tokens.size(), 10.0f);
  row[0] = row[1] = -100;
  WriteMarkovModel(path, tokens, std::vector<std::vector<float>>(tokens.size(), row), kTemplate);
}

std::vector<boost::json::value> Events(const std::string& body) {
  std::vector<boost::json::value> events;
  EXPECT_TRUE(body.empty() || body.ends_with("\n\n"));
  EXPECT_TRUE(IsWellFormedUtf8(body));
  for (size_t at = 0; at < body.size();) {
    const size_t end = body.find("\n\n", at);
    if (end == std::string::npos) break;
    const std::string event = body.substr(at, end - at);
    at = end + 2;
    EXPECT_EQ(event.find('\n'), std::string::npos) << event;
    if (event.starts_with(':')) continue;
    EXPECT_TRUE(event.starts_with("data: ")) << event;
    const std::string data = event.substr(std::min<size_t>(6, event.size()));
    if (data == "[DONE]") {
      events.emplace_back(data);
      continue;
    }
    boost::system::error_code error;
    events.push_back(boost::json::parse(data, error));
    EXPECT_FALSE(error) << data;
  }
  return events;
}

std::vector<boost::json::object> Chunks(const std::string& body) {
  std::vector<boost::json::object> chunks;
  for (const auto& event : Events(body)) {
    if (event.is_object()) chunks.push_back(event.as_object());
  }
  return chunks;
}

namespace {

// Calls `use` with each chunk's entry of one choice.
template <typename Use>
void ForEachPart(const std::string& body, int choice, Use&& use) {
  for (const auto& chunk : Chunks(body)) {
    const auto* choices = chunk.if_contains("choices");
    if (choices == nullptr) continue;
    for (const auto& entry : choices->as_array()) {
      if (entry.at("index").as_int64() == choice) use(entry.as_object());
    }
  }
}

}  // namespace

std::string StreamedText(const std::string& body, int choice) {
  std::string text;
  ForEachPart(body, choice, [&](const boost::json::object& entry) {
    const auto* delta = entry.if_contains("delta");
    const auto* part =
        delta != nullptr ? delta->as_object().if_contains("content") : entry.if_contains("text");
    if (part != nullptr && part->is_string()) text += part->as_string();
  });
  return text;
}

std::vector<std::string> FinishReasons(const std::string& body, int choice) {
  std::vector<std::string> reasons;
  ForEachPart(body, choice, [&](const boost::json::object& entry) {
    const auto* reason = entry.if_contains("finish_reason");
    if (reason != nullptr && reason->is_string()) reasons.emplace_back(reason->as_string());
  });
  return reasons;
}

boost::json::object Json(const std::string& text) {
  boost::system::error_code error;
  const auto value = boost::json::parse(text, error);
  EXPECT_FALSE(error) << text;
  return value.is_object() ? value.as_object() : boost::json::object();
}

std::string AnswerText(const std::string& body, size_t choice) {
  const auto answer = Json(body);
  const auto* choices = answer.if_contains("choices");
  if (choices == nullptr || choices->as_array().size() <= choice) return "<none> " + body;
  const auto& entry = choices->as_array()[choice].as_object();
  const auto* message = entry.if_contains("message");
  const auto& text = message != nullptr ? message->at("content") : entry.at("text");
  return text.is_string() ? std::string(text.as_string()) : "<null>";
}

}  // namespace quire::testing
