#include "cli/cache/block_reader.h"

#include <algorithm>
#include <utility>

#include "base/utf8.h"

namespace quire {
namespace {

size_t NumCharacters(std::string_view text) {
  size_t count = 0;
  for (; !text.empty(); ++count) {
    text.remove_prefix(static_cast<size_t>(FirstCharacter(text).num_bytes));
  }
  return count;
}

std::string WithoutFirst(std::string_view text, size_t count) {
  for (; count > 0 && !text.empty(); --count) {
    text.remove_prefix(static_cast<size_t>(FirstCharacter(text).num_bytes));
  }
  return std::string(text);
}

std::string FirstCharacters(std::string_view text, size_t count) {
  return std::string(text.substr(0, text.size() - WithoutFirst(text, count).size()));
}

std::string LastCharacters(std::string_view text, size_t count) {
  const size_t num_characters = NumCharacters(text);
  return WithoutFirst(text, num_characters - std::min(count, num_characters));
}

// As it continues a text.
std::string Continuation(const Tokenizer& tokenizer, std::span<const int32_t> tokens) {
  std::string text;
  for (const int32_t token : tokens) text += tokenizer.TokenBytes(token, /*with_control=*/true);
  return RepairUtf8(text);
}

std::string Beginning(const Tokenizer& tokenizer, std::span<const int32_t> tokens) {
  return RepairUtf8(tokenizer.Decode(tokens, /*with_control=*/true));
}

// Names blocks as the store of the (proven) record does.
Result<RecordCodec> NamesOf(const RecordHead& head, const std::shared_ptr<const KeyRing>& keys) {
  if (head.is_sealed && keys == nullptr) {
    return MakeError(ErrorCode::kInvalidArgument,
                     "the records are sealed, and named with the key; give --kv-key-file FILE");
  }
  const StoredModel model{.fingerprint = head.fingerprint,
                          .ingredients = head.ingredients,
                          .type = head.type,
                          .group_bytes = {head.payload_bytes}};
  QUIRE_RETURN_IF_ERROR(RecordCodec::CanStore(model));
  return RecordCodec(model, head.is_sealed ? keys : nullptr, /*encrypts=*/false);
}

}  // namespace

void LearnParents(DiskCatalogue& store, const std::shared_ptr<const KeyRing>& keys,
                  std::vector<CataloguedRecord>& records) {
  if (keys == nullptr) return;
  for (CataloguedRecord& record : records) {
    if (record.entry == 0 || record.parent != RecordName()) continue;
    const auto bytes = store.Read(record);
    RecordHead head;
    StoredBlock block;
    std::vector<std::byte> payload;
    if (!bytes.ok() || ReadHead(*bytes, &head) != RecordFault::kNone ||
        OpenRecord(*bytes, keys.get(), SealDemand::kNone, &block, &payload) != RecordFault::kNone) {
      continue;
    }
    const auto names = NamesOf(head, keys);
    if (names.ok()) record.parent = names->NameOf({.id = block.parent, .group = record.group});
  }
}

BlockReader::BlockReader(DiskCatalogue& store, const std::vector<CataloguedRecord>& records,
                         std::shared_ptr<const KeyRing> keys)
    : store_(store), keys_(std::move(keys)) {
  for (const CataloguedRecord& record : records) {
    records_[record.fingerprint].emplace(record.name, record);
    groups_[record.fingerprint].insert(record.group);
  }
}

Result<StoredBlock> BlockReader::Open(const CataloguedRecord& record) {
  QUIRE_ASSIGN_OR_RETURN(const Opened opened, OpenWhole(record));
  return opened.block;
}

Result<BlockReader::Opened> BlockReader::OpenWhole(const CataloguedRecord& record) {
  const std::pair key(record.fingerprint, record.name);
  if (const auto found = opened_.find(key); found != opened_.end()) return found->second;
  QUIRE_ASSIGN_OR_RETURN(const std::vector<std::byte> bytes, store_.Read(record));
  Opened opened;
  std::vector<std::byte> payload;
  RecordFault fault = ReadHead(bytes, &opened.head);
  if (fault == RecordFault::kNone && opened.head.name != record.name)
    fault = RecordFault::kOtherBlock;
  if (fault == RecordFault::kNone) {
    fault = OpenRecord(bytes, keys_.get(), SealDemand::kNone, &opened.block, &payload);
  }
  if (fault == RecordFault::kUnknownKey) {
    return MakeError(ErrorCode::kInvalidArgument,
                     "record {}: encrypted, and its key is not there; give --kv-key-file FILE",
                     ToHex(record.name.digest).substr(0, 16));
  }
  if (fault != RecordFault::kNone) {
    return MakeError(ErrorCode::kCorrupt, "record {}: {}; `quire cache verify` checks all of them",
                     ToHex(record.name.digest).substr(0, 16), NameOf(fault));
  }
  opened_.emplace(key, opened);
  return opened;
}

Result<std::vector<int32_t>> BlockReader::Tokens(const PrefixChain& chain, size_t first,
                                                 size_t count) {
  std::vector<int32_t> tokens;
  for (size_t i = first; i < first + count; ++i) {
    QUIRE_ASSIGN_OR_RETURN(const StoredBlock block, Open(chain.path[i]));
    tokens.insert(tokens.end(), block.tokens.begin(), block.tokens.end());
  }
  return tokens;
}

Result<BlockReader::Ends> BlockReader::TextEnds(const PrefixChain& chain,
                                                const Tokenizer& tokenizer, size_t max_chars) {
  const size_t num_blocks = chain.path.size();
  const auto begin_of = [&](std::span<const int32_t> tokens) {
    return chain.is_whole() ? Beginning(tokenizer, tokens) : Continuation(tokenizer, tokens);
  };
  std::string begin;
  for (size_t count = 1; count <= num_blocks; ++count) {
    QUIRE_ASSIGN_OR_RETURN(const auto tokens, Tokens(chain, 0, count));
    begin = begin_of(tokens);
    if (NumCharacters(begin) <= 2 * max_chars) {
      if (count == num_blocks) return Ends{.begin = begin};
    } else {
      break;
    }
  }
  std::string end;
  for (size_t count = 1; count <= num_blocks && NumCharacters(end) < max_chars; ++count) {
    QUIRE_ASSIGN_OR_RETURN(const auto tokens, Tokens(chain, num_blocks - count, count));
    end = Continuation(tokenizer, tokens);
  }
  return Ends{.begin = FirstCharacters(begin, max_chars), .end = LastCharacters(end, max_chars)};
}

Result<bool> BlockReader::BeginsWith(const PrefixChain& chain, const Tokenizer& tokenizer,
                                     std::string_view text) {
  std::string begin;
  for (size_t count = 1; count <= chain.path.size() && begin.size() < text.size(); ++count) {
    QUIRE_ASSIGN_OR_RETURN(const auto tokens, Tokens(chain, 0, count));
    begin = tokenizer.Decode(tokens, /*with_control=*/true);
    // Most differ early.
    const size_t length = std::min(begin.size(), text.size());
    if (std::string_view(begin).substr(0, length) != text.substr(0, length)) return false;
  }
  return begin.size() >= text.size();
}

Result<std::vector<CataloguedRecord>> BlockReader::InAllGroups(const PrefixChain& chain) {
  std::vector<CataloguedRecord> found = chain.path;
  if (chain.num_groups == 1) return found;
  const auto& records = records_[chain.last().fingerprint];
  for (const CataloguedRecord& record : chain.path) {
    QUIRE_ASSIGN_OR_RETURN(const Opened opened, OpenWhole(record));
    QUIRE_ASSIGN_OR_RETURN(const RecordCodec codec, NamesOf(opened.head, keys_));
    for (const int group : groups_[record.fingerprint]) {
      if (group == record.group) continue;
      const auto other = records.find(codec.NameOf({.id = opened.block.id, .group = group}));
      if (other != records.end()) found.push_back(other->second);
    }
  }
  return found;
}

}  // namespace quire
