// Prefixes that are kept on purpose (engine/pins.h): made, listed, dropped, each by its own tenant.
//
// A pin is named by a digest, not by the engine's count, which would tell how many others there
// are.
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <utility>

#include "base/sha256.h"
#include "formats/printable.h"
#include "sampling/seed.h"
#include "server/openai/body_reader.h"
#include "server/openai/json_writer.h"
#include "server/routes/completion_request.h"
#include "server/routes/prompt_body.h"
#include "server/routes/routes.h"

namespace quire {
namespace {

constexpr double kDefaultSeconds = 3600;
constexpr double kMaxSeconds = 30 * 24 * 3600;
constexpr size_t kMaxLabelBytes = 256;

// Names that differ from one server's life to the next.
class PinNames {
 public:
  PinNames() {
    const auto seed = RandomSeed();
    nonce_ = seed.ok() ? *seed : 0;
  }

  std::string Of(const PinInfo& pin) const {
    const Digest digest = Sha256()
                              .Add("quire pin")
                              .Add(nonce_)
                              .Add(static_cast<uint64_t>(pin.id))
                              .Add(pin.tenant)
                              .Finish();
    return "pin_" + ToHex(digest).substr(0, 24);
  }

 private:
  uint64_t nonce_ = 0;
};

void WritePin(const PinInfo& pin, const PinNames& names, JsonWriter& json) {
  json.BeginObject();
  json.Key("id");
  json.String(names.Of(pin));
  json.Key("object");
  json.String("quire.pin");
  json.Key("label");
  json.String(pin.label);
  json.Key("tokens");
  json.Int(pin.num_tokens);
  json.Key("blocks");
  json.Int(pin.num_blocks);
  json.Key("bytes");
  json.Int(static_cast<int64_t>(pin.size_bytes));
  json.Key("expires_in_seconds");
  json.Number(std::max(pin.expires_in_ms, 0.0) / 1000);
  json.Key("version");
  json.Int(1);
  json.EndObject();
}

std::string PinBody(const PinInfo& pin, const PinNames& names) {
  std::string body;
  JsonWriter json(body);
  WritePin(pin, names, json);
  return body;
}

std::string PinListBody(const std::vector<PinInfo>& pins, const PinNames& names) {
  std::string body;
  JsonWriter json(body);
  json.BeginObject();
  json.Key("object");
  json.String("list");
  json.Key("version");
  json.Int(1);
  json.Key("data");
  json.BeginArray();
  for (const PinInfo& pin : pins) WritePin(pin, names, json);
  json.EndArray();
  json.EndObject();
  return body;
}

ApiError NoSuchPin(std::string_view name) {
  return {.status = 404,
          .message = fmt::format("there is no pin '{}'; it may have ended", Printable(name, 80)),
          .code = "pin_not_found"};
}

std::variant<PinSpec, ApiError> ReadPin(const ServerContext& context, const RouteCall& call) {
  auto read = ReadPromptBody(context, call);
  if (auto* error = std::get_if<ApiError>(&read)) return std::move(*error);
  auto& body = std::get<PromptBody>(read);
  BodyReader reader(body.json.AsDict());
  const double seconds = reader.Number("seconds", 1, kMaxSeconds).value_or(kDefaultSeconds);
  std::string label = reader.String("label").value_or("");
  if (label.size() > kMaxLabelBytes) {
    reader.Fail("label",
                fmt::format("may have {} bytes at most, got {}", kMaxLabelBytes, label.size()));
  }
  if (body.prompts.size() != 1) {
    reader.Fail("prompt", fmt::format("must be one prompt, got {}", body.prompts.size()));
  }
  if (reader.error()) return *reader.error();
  Request& request = body.prompts.front().request;
  return PinSpec{.tokens = std::move(request.prompt),
                 .cache_salt = std::move(request.cache_salt),
                 .tenant = std::move(request.tenant),
                 .label = std::move(label),
                 .lifetime_ms = seconds * 1000,
                 .max_blocks = request.tenant_max_blocks,
                 .tenant_max_blocks = request.tenant_max_blocks};
}

// Whatever is under way keeps it alive.
class PinRoutes : public std::enable_shared_from_this<PinRoutes> {
 public:
  explicit PinRoutes(ServerContext& context) : context_(context) {}

  // A step on the text pool, one on the engine's thread, and the answer when the prefix is there.
  void Make(RouteCall call) {
    context_.text.Post([this, self = shared_from_this(), call = std::move(call)]() mutable {
      auto spec = ReadPin(context_, call);
      if (const auto* error = std::get_if<ApiError>(&spec)) {
        return RespondError(context_, call, *error);
      }
      call.request.body.clear();
      OnEngine(call, [this, self, call, spec = std::move(std::get<PinSpec>(spec))](Engine& engine) {
        engine.Pin(spec,
                   [this, self, call](Result<PinInfo> made) mutable { TellMade(call, made); });
      });
    });
  }

  void List(RouteCall call) {
    OnEngine(call, [this, self = shared_from_this(), call](Engine& engine) {
      const std::vector<PinInfo> pins = engine.Pins(call.caller.tenant->name);
      call.exchange->Respond({.body = PinListBody(pins, names_)});
    });
  }

  void Drop(RouteCall call) {
    OnEngine(call, [this, self = shared_from_this(), call](Engine& engine) mutable {
      const std::string& tenant = call.caller.tenant->name;
      for (const PinInfo& pin : engine.Pins(tenant)) {
        if (names_.Of(pin) != call.path_rest || !engine.DropPin(tenant, pin.id)) continue;
        return call.exchange->Respond(
            {.body = fmt::format(R"({{"id":"{}","object":"quire.pin","deleted":true,"version":1}})",
                                 names_.Of(pin))});
      }
      RespondError(context_, call, NoSuchPin(call.path_rest));
    });
  }

 private:
  void OnEngine(RouteCall& call, EngineThread::Task task) {
    if (!context_.engine.Post(std::move(task))) RespondError(context_, call, ShuttingDown());
  }

  void TellMade(RouteCall& call, const Result<PinInfo>& made) {
    if (made.ok()) return call.exchange->Respond({.body = PinBody(*made, names_)});
    RespondError(context_, call, ApiErrorOf(made.error()));
  }

  ServerContext& context_;
  const PinNames names_;
};

}  // namespace

void AddPinRoutes(Router& router, ServerContext& context) {
  const auto routes = std::make_shared<PinRoutes>(context);
  router.Add({.method = "GET", .path = "/quire/pins", .handler = [routes](RouteCall call) {
                routes->List(std::move(call));
              }});
  router.Add({.method = "POST", .path = "/quire/pins", .handler = [routes](RouteCall call) {
                routes->Make(std::move(call));
              }});
  router.Add({.method = "DELETE", .path = "/quire/pins/*", .handler = [routes](RouteCall call) {
                routes->Drop(std::move(call));
              }});
}

}  // namespace quire
