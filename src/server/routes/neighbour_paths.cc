#include "server/routes/neighbour_paths.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "formats/printable.h"

namespace quire {
namespace {

struct Neighbour {
  std::string_view path;  // one that ends in '*' stands for all that begin so
  std::string_view hint;
};

// The first that matches counts.
constexpr Neighbour kNeighbours[] = {
    // OpenAI's
    {"/v1/responses*", "the Responses API is not supported; use POST /v1/chat/completions"},
    {"/v1/engines*", "engines are gone from the OpenAI API; use POST /v1/completions"},
    {"/v1/audio*", "audio is not supported: this server does text alone"},
    {"/v1/images*", "images are not supported: this server does text alone"},
    {"/v1/videos*", "videos are not supported: this server does text alone"},
    {"/v1/realtime*",
     "the Realtime API is not supported; use POST /v1/chat/completions with "
     "\"stream\": true"},
    {"/v1/moderations", "moderation is not supported"},
    {"/v1/assistants*", "assistants are not supported; use POST /v1/chat/completions"},
    {"/v1/threads*", "threads are not supported; use POST /v1/chat/completions"},
    {"/v1/files*", "files are not kept here; `quire batch` answers a file of requests"},
    {"/v1/batches*", "batches are not kept here; `quire batch` answers a file of requests"},
    {"/v1/fine_tuning*", "fine-tuning is not supported"},
    {"/v1/edits", "edits are gone from the OpenAI API; use POST /v1/chat/completions"},
    // Anthropic's
    {"/v1/messages*", "Anthropic's API is not supported; use POST /v1/chat/completions"},
    {"/v1/complete", "Anthropic's API is not supported; use POST /v1/completions"},
    // vLLM's
    {"/v1/score", "scoring is not supported; POST /v1/embeddings gives vectors to compare"},
    {"/score", "scoring is not supported; POST /v1/embeddings gives vectors to compare"},
    {"/v1/rerank", "reranking is not supported; POST /v1/embeddings gives vectors to compare"},
    {"/v2/rerank", "reranking is not supported; POST /v1/embeddings gives vectors to compare"},
    {"/rerank*", "reranking is not supported; POST /v1/embeddings gives vectors to compare"},
    {"/pooling", "use POST /v1/embeddings"},
    {"/ping", "use GET /health"},
    {"/load", "use GET /metrics"},
    {"/invocations", "use POST /v1/chat/completions"},
    {"/reset_prefix_cache", "cached prefixes give way by themselves; GET /quire/cache shows them"},
    {"/v1/load_lora_adapter", "adapters are not supported"},
    {"/v1/unload_lora_adapter", "adapters are not supported"},
    // Ollama's
    {"/api/chat", "this is Ollama's path; use POST /v1/chat/completions"},
    {"/api/generate", "this is Ollama's path; use POST /v1/completions"},
    {"/api/tags", "this is Ollama's path; use GET /v1/models"},
    {"/api/ps", "this is Ollama's path; use GET /v1/models"},
    {"/api/show", "this is Ollama's path; use GET /v1/models/{id}"},
    {"/api/embed*", "this is Ollama's path; use POST /v1/embeddings"},
    {"/api/version", "this is Ollama's path; use GET /version"},
    {"/api/pull", "this is Ollama's path; `quire pull` gets models"},
    {"/api/*", "Ollama's API is not supported; point an OpenAI client at the base URL /v1"},
    // llama.cpp's
    {"/completion", "this is llama.cpp's path; use POST /v1/completions"},
    {"/infill", "this is llama.cpp's path; use POST /v1/completions with \"suffix\""},
    {"/apply-template", "this is llama.cpp's path; use POST /v1/chat/completions/render"},
    {"/props", "this is llama.cpp's path; use GET /v1/models, or GET /quire/plan"},
    {"/slots*", "this is llama.cpp's path, and there are no slots here; use GET /quire/cache"},
    {"/embedding", "this is llama.cpp's path; use POST /v1/embeddings"},
    {"/reranking", "reranking is not supported; POST /v1/embeddings gives vectors to compare"},
    {"/lora-adapters", "adapters are not supported"},
    {"/healthz", "use GET /health"},
    {"/ready*", "use GET /health"},
    {"/livez", "use GET /live"},
    // Text Generation Inference's and others'
    {"/generate", "this is Text Generation Inference's path; use POST /v1/completions"},
    {"/generate_stream",
     "this is Text Generation Inference's path; use POST /v1/completions with \"stream\": true"},
    {"/chat_tokenize", "use POST /tokenize with \"messages\""},
    {"/info", "use GET /v1/models, GET /version or GET /quire/plan"},
    {"/v2*", "this server has no /v2; use /v1"},
    {"/docs", "GET /openapi.json describes the API; GET / is a page for people"},
    {"/redoc", "GET /openapi.json describes the API; GET / is a page for people"},
    {"/swagger*", "GET /openapi.json describes the API; GET / is a page for people"},
    {"/v1", "this is the base URL for OpenAI clients; GET /v1/models is one of its paths"},
};

bool IsMeant(std::string_view pattern, std::string_view path) {
  if (!pattern.ends_with('*')) return path == pattern;
  return path.starts_with(pattern.substr(0, pattern.size() - 1));
}

bool IsAnswered(std::string_view path, const std::vector<Route>& routes) {
  return std::ranges::any_of(routes, [&](const Route& route) { return route.path == path; });
}

std::string HintFor(std::string_view path, const std::vector<Route>& routes) {
  const std::string with_version = fmt::format("/v1{}", path);
  if (IsAnswered(with_version, routes)) {
    return fmt::format("use {}: the client's base URL must end in /v1", with_version);
  }
  if (path.starts_with("/v1/") && IsAnswered(path.substr(3), routes)) {
    const std::string_view without = path.substr(3);
    return without.starts_with("/v1/")
               ? fmt::format("use {}: the client's base URL has /v1 once too often", without)
               : fmt::format("use {}, which is not under /v1", without);
  }
  for (const Neighbour& neighbour : kNeighbours) {
    if (IsMeant(neighbour.path, path)) return std::string(neighbour.hint);
  }
  return "GET /openapi.json lists what is";
}

}  // namespace

ApiError NoSuchPath(std::string_view path, const std::vector<Route>& routes) {
  std::string_view plain = path;
  while (plain.size() > 1 && plain.ends_with('/')) plain.remove_suffix(1);
  return {
      .status = 404,
      .message = fmt::format("{} is not here; {}", Printable(path, 120), HintFor(plain, routes)),
      .code = "unknown_url"};
}

}  // namespace quire
