#include "server/openai/model_list.h"

#include "base/utf8.h"
#include "server/openai/json_writer.h"

namespace quire {
namespace {

void WriteModel(const ModelEntry& entry, JsonWriter& json) {
  const std::string id = RepairUtf8(entry.id);
  json.BeginObject();
  json.Key("id");
  json.String(id);
  json.Key("object");
  json.String("model");
  json.Key("created");
  json.Int(entry.created);
  json.Key("owned_by");
  json.String("quire");
  json.Key("root");
  json.String(entry.root.empty() ? id : RepairUtf8(entry.root));
  json.Key("max_model_len");
  json.Int(entry.max_model_len);
  json.EndObject();
}

}  // namespace

std::string ModelBody(const ModelEntry& entry) {
  std::string out;
  JsonWriter json(out);
  WriteModel(entry, json);
  return out;
}

std::string ModelListBody(std::span<const ModelEntry> entries) {
  std::string out;
  JsonWriter json(out);
  json.BeginObject();
  json.Key("object");
  json.String("list");
  json.Key("data");
  json.BeginArray();
  for (const ModelEntry& entry : entries) WriteModel(entry, json);
  json.EndArray();
  json.EndObject();
  return out;
}

}  // namespace quire
