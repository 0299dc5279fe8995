#include "kv/tiers/redis/resp_reader.h"

#include <fmt/format.h>
#include <hiredis/hiredis.h>

#include <utility>

#include "base/check.h"

namespace quire {
namespace {

// What the parser's callbacks may still make of the reply under way.
struct Budget {
  size_t max_elements = 0;
  size_t num_elements = 0;
  bool is_exceeded = false;
};

// Where the object of this task goes: into its parent, or a reply of its own.
RespReply* PlaceOf(const redisReadTask* task) {
  if (task->parent == nullptr) return new RespReply;
  auto* parent = static_cast<RespReply*>(task->parent->obj);
  return &parent->elements[static_cast<size_t>(task->idx)];
}

void* CreateString(const redisReadTask* task, char* text, size_t size) {
  RespReply* reply = PlaceOf(task);
  reply->kind = task->type == REDIS_REPLY_ERROR    ? RespReply::Kind::kError
                : task->type == REDIS_REPLY_STATUS ? RespReply::Kind::kStatus
                                                   : RespReply::Kind::kString;
  reply->text.assign(text, size);
  return reply;
}

void* CreateArray(const redisReadTask* task, int num_elements) {
  auto* budget = static_cast<Budget*>(task->privdata);
  const auto wanted = static_cast<size_t>(num_elements);
  if (num_elements < 0 || wanted > budget->max_elements - budget->num_elements) {
    budget->is_exceeded = true;
    return nullptr;  // the parser takes it for a lack of memory, and breaks
  }
  budget->num_elements += wanted;
  RespReply* reply = PlaceOf(task);
  reply->kind = RespReply::Kind::kArray;
  reply->elements.resize(wanted);
  return reply;
}

void* CreateInteger(const redisReadTask* task, long long value) {
  RespReply* reply = PlaceOf(task);
  reply->kind = RespReply::Kind::kInteger;
  reply->integer = value;
  return reply;
}

void* CreateNil(const redisReadTask* task) { return PlaceOf(task); }

// The parser frees the outermost object alone, and what it holds goes with it.
void FreeReply(void* reply) { delete static_cast<RespReply*>(reply); }

redisReplyObjectFunctions* Functions() {
  static redisReplyObjectFunctions functions = {.createString = CreateString,
                                                .createArray = CreateArray,
                                                .createInteger = CreateInteger,
                                                .createNil = CreateNil,
                                                .freeObject = FreeReply};
  return &functions;
}

}  // namespace

struct RespReader::Parser {
  explicit Parser(const RespLimits& bounds)
      : limits(bounds), reader(redisReaderCreateWithFunctions(Functions())) {
    QUIRE_CHECK(reader != nullptr, "out of memory");
    budget.max_elements = bounds.max_elements;
    reader->privdata = &budget;
  }
  ~Parser() { redisReaderFree(reader); }
  size_t UnreadBytes() const { return reader->len - reader->pos; }

  RespLimits limits;
  Budget budget;
  redisReader* reader;
  size_t reply_bytes = 0;  // of the reply under way and what came behind it
};

RespReader::RespReader(const RespLimits& limits) : parser_(std::make_unique<Parser>(limits)) {}
RespReader::~RespReader() = default;

void RespReader::Feed(std::string_view bytes) {
  if (!reason_.empty()) return;
  parser_->reply_bytes += bytes.size();
  if (redisReaderFeed(parser_->reader, bytes.data(), bytes.size()) != REDIS_OK) {
    reason_ = "no memory for a reply";
  }
}

RespReader::Step RespReader::Next(RespReply* reply) {
  if (!reason_.empty()) return Step::kBroken;
  void* object = nullptr;
  if (redisReaderGetReply(parser_->reader, &object) != REDIS_OK) {
    reason_ = parser_->budget.is_exceeded
                  ? fmt::format("a reply of more than {} elements", parser_->limits.max_elements)
                  : fmt::format("not the Redis protocol ({})", parser_->reader->errstr);
    return Step::kBroken;
  }
  if (object != nullptr) {
    *reply = std::move(*static_cast<RespReply*>(object));
    FreeReply(object);
    parser_->budget.num_elements = 0;
    parser_->reply_bytes = parser_->UnreadBytes();
    return Step::kReply;
  }
  if (parser_->reply_bytes > parser_->limits.max_reply_bytes) {
    reason_ = fmt::format("a reply of more than {} bytes", parser_->limits.max_reply_bytes);
    return Step::kBroken;
  }
  return Step::kNeedsBytes;
}

bool RespReader::IsEmpty() const { return reason_.empty() && parser_->reply_bytes == 0; }

}  // namespace quire
