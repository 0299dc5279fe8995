#include "server/openai/render.h"

#include "base/utf8.h"
#include "server/openai/json_writer.h"

namespace quire {

std::string RenderBody(std::span<const EngineRequest> prompts, std::string_view model) {
  std::string out;
  JsonWriter json(out);
  json.BeginObject();
  json.Key("object");
  json.String("prompt.render");
  json.Key("model");
  json.String(RepairUtf8(model));
  json.Key("data");
  json.BeginArray();
  for (size_t i = 0; i < prompts.size(); ++i) {
    const EngineRequest& prompt = prompts[i];
    json.BeginObject();
    json.Key("index");
    json.Int(static_cast<int64_t>(i));
    json.Key("text");
    prompt.text.empty() ? json.Null() : json.String(RepairUtf8(prompt.text));
    json.Key("prompt_token_ids");
    json.Ids(prompt.request.prompt);
    json.Key("num_tokens");
    json.Int(static_cast<int64_t>(prompt.request.prompt.size()));
    json.EndObject();
  }
  json.EndArray();
  json.EndObject();
  return out;
}

}  // namespace quire
