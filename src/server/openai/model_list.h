// Answers of /v1/models.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace quire {

struct ModelEntry {
  std::string id{};
  int64_t created = 0;    // Unix time in seconds
  int max_model_len = 0;  // tokens of prompt and answer together
  std::string root{};     // the id that an alias stands for; empty = itself
};

// {"id", "object": "model", "created", "owned_by": "quire", "root", "max_model_len"}
std::string ModelBody(const ModelEntry& entry);
// {"object": "list", "data": [...]}
std::string ModelListBody(std::span<const ModelEntry> entries);

}  // namespace quire
