#include "engine/answer_index.h"

#include <algorithm>
#include <list>
#include <map>
#include <mutex>
#include <unordered_map>
#include <utility>

#include "sampling/seed.h"

namespace quire {
namespace {

// What an entry takes beside its text and ids: nodes of the list and the maps.
constexpr size_t kEntryOverheadBytes = 512;

// Neighbours of one origin joined and empty pieces left out, so that equal texts are equal pieces.
void Append(std::string_view text, bool from_template, std::vector<PromptPiece>& pieces) {
  if (text.empty()) return;
  if (pieces.empty() || pieces.back().from_template != from_template) {
    pieces.push_back({std::string(), from_template});
  }
  pieces.back().text += text;
}

std::vector<PromptPiece> Joined(std::span<const PromptPiece> pieces) {
  std::vector<PromptPiece> joined;
  for (const PromptPiece& piece : pieces) Append(piece.text, piece.from_template, joined);
  return joined;
}

size_t NumBytes(std::span<const PromptPiece> pieces) {
  size_t num_bytes = 0;
  for (const PromptPiece& piece : pieces) num_bytes += piece.text.size();
  return num_bytes;
}

// Both joined.
bool BeginsWith(std::span<const PromptPiece> text, std::span<const PromptPiece> beginning) {
  if (beginning.size() > text.size()) return false;
  for (size_t i = 0; i < beginning.size(); ++i) {
    const bool is_last = i + 1 == beginning.size();
    if (text[i].from_template != beginning[i].from_template) return false;
    if (is_last ? !text[i].text.starts_with(beginning[i].text)
                : text[i].text != beginning[i].text) {
      return false;
    }
  }
  return true;
}

// A polynomial over bytes and their origins, modulo 2^61 - 1, at a secret point: nobody can choose
// texts that share hashes. Entries are compared all the same.
class TextHash {
 public:
  explicit TextHash(uint64_t point) : point_(point % (kModulus - 512) + 512) {}

  void Add(std::string_view text, bool from_template) {
    const uint64_t origin = from_template ? 257 : 1;
    for (const char byte : text) {
      const auto product =
          static_cast<unsigned __int128>(value_) * point_ + (static_cast<uint8_t>(byte) + origin);
      const uint64_t folded =
          static_cast<uint64_t>(product & kModulus) + static_cast<uint64_t>(product >> 61);
      value_ = folded >= kModulus ? folded - kModulus : folded;
    }
  }
  uint64_t value() const { return value_; }

 private:
  static constexpr uint64_t kModulus = (uint64_t{1} << 61) - 1;
  uint64_t point_;
  uint64_t value_ = 0;
};

struct Place {
  Digest root{};
  size_t num_bytes = 0;
  uint64_t hash = 0;
  bool operator==(const Place&) const = default;
};

struct PlaceHash {
  size_t operator()(const Place& place) const {
    uint64_t root = 0;
    for (size_t i = 0; i < sizeof root; ++i) root = root << 8 | place.root[i];
    return static_cast<size_t>(root ^ place.hash);
  }
};

struct Entry {
  std::vector<PromptPiece> text{};
  std::vector<int32_t> ids{};

  size_t size_bytes() const {
    return kEntryOverheadBytes + NumBytes(text) + text.capacity() * sizeof(PromptPiece) +
           ids.capacity() * sizeof(int32_t);
  }
};

// The part of an answer that is its ids for certain.
struct KnownAnswer {
  size_t num_bytes = 0;
  size_t num_ids = 0;
};

bool IsCharacterBoundary(std::string_view text, size_t at) {
  return at >= text.size() || (static_cast<uint8_t>(text[at]) & 0xC0) != 0x80;
}

KnownAnswer KnownPartOf(const Tokenizer& tokenizer, std::string_view text,
                        std::span<const int32_t> ids) {
  KnownAnswer known;
  bool at_start = tokenizer.strips_leading_space();
  size_t at = 0;
  for (size_t i = 0; i < ids.size(); ++i) {
    const TokenKind kind = tokenizer.Kind(ids[i]);
    if (kind == TokenKind::kControl || kind == TokenKind::kUnknown) break;
    const std::string bytes = tokenizer.TokenBytes(ids[i]);
    if (bytes.empty()) break;
    std::string_view shown = bytes;
    // The dummy space in front of an answer is not shown (Tokenizer::Decode).
    if (at_start && kind == TokenKind::kNormal && shown.front() == ' ') shown.remove_prefix(1);
    at_start = false;
    if (!text.substr(at).starts_with(shown)) break;
    at += shown.size();
    // Inside a character the next bytes decide whether it is one, or U+FFFD stands in its place.
    if (IsCharacterBoundary(text, at)) known = {.num_bytes = at, .num_ids = i + 1};
  }
  return known;
}

// The same without the ids that white space at its end is part of: templates trim answers.
KnownAnswer Trimmed(const Tokenizer& tokenizer, std::string_view text, std::span<const int32_t> ids,
                    KnownAnswer known) {
  const size_t last = text.substr(0, known.num_bytes).find_last_not_of(" \t\r\n\v\f");
  const size_t trimmed_bytes = last == std::string_view::npos ? 0 : last + 1;
  while (known.num_ids > 0 && known.num_bytes > trimmed_bytes) {
    const size_t num_bytes = tokenizer.TokenBytes(ids[--known.num_ids]).size();
    known.num_bytes -= std::min(num_bytes, known.num_bytes);
  }
  // A character of several tokens may end there too.
  while (known.num_ids > 0 && !IsCharacterBoundary(text, known.num_bytes)) {
    known.num_bytes -= tokenizer.TokenBytes(ids[--known.num_ids]).size();
  }
  return known;
}

}  // namespace

struct AnswerIndex::Entries {
  using Item = std::pair<Place, std::shared_ptr<const Entry>>;

  explicit Entries(size_t max_bytes) : max_bytes(max_bytes) {}

  void Insert(const Place& place, Entry entry);
  void Erase(std::list<Item>::iterator item);
  // The lengths, ascending, of entries under this root that a text of num_bytes may begin with.
  std::vector<size_t> LengthsOf(const Digest& root, size_t num_bytes);

  const size_t max_bytes;
  // Without randomness from the system a hash is guessable, which costs time and nothing else.
  const uint64_t hash_point = RandomSeed().ok() ? RandomSeed().value() : 0x9E3779B97F4A7C15u;

  std::mutex mutex;          // of all that follows
  std::list<Item> by_use{};  // the most recently used in front
  std::unordered_map<Place, std::list<Item>::iterator, PlaceHash> by_place{};
  std::map<Digest, std::map<size_t, size_t>> lengths{};  // under each root: length to entries of it
  size_t size_bytes = 0;
};

void AnswerIndex::Entries::Insert(const Place& place, Entry entry) {
  const size_t entry_bytes = entry.size_bytes();
  if (entry_bytes > max_bytes) return;
  const std::lock_guard lock(mutex);
  if (const auto known = by_place.find(place); known != by_place.end()) Erase(known->second);
  while (size_bytes + entry_bytes > max_bytes) Erase(std::prev(by_use.end()));
  by_use.emplace_front(place, std::make_shared<const Entry>(std::move(entry)));
  by_place.emplace(place, by_use.begin());
  ++lengths[place.root][place.num_bytes];
  size_bytes += entry_bytes;
}

void AnswerIndex::Entries::Erase(std::list<Item>::iterator item) {
  const Place place = item->first;
  size_bytes -= item->second->size_bytes();
  const auto of_root = lengths.find(place.root);
  const auto of_length = of_root->second.find(place.num_bytes);
  if (--of_length->second == 0) of_root->second.erase(of_length);
  if (of_root->second.empty()) lengths.erase(of_root);
  by_place.erase(place);
  by_use.erase(item);
}

std::vector<size_t> AnswerIndex::Entries::LengthsOf(const Digest& root, size_t num_bytes) {
  const std::lock_guard lock(mutex);
  std::vector<size_t> found;
  const auto of_root = lengths.find(root);
  if (of_root == lengths.end()) return found;
  for (const auto& [length, count] : of_root->second) {
    if (length > num_bytes) break;
    found.push_back(length);
  }
  return found;
}

AnswerIndex::AnswerIndex(size_t max_bytes) : entries_(std::make_unique<Entries>(max_bytes)) {}
AnswerIndex::~AnswerIndex() = default;

void AnswerIndex::Add(const Digest& root, const Tokenizer& tokenizer,
                      std::span<const PromptPiece> prompt, std::span<const int32_t> prompt_ids,
                      std::string_view answer_text, std::span<const int32_t> answer_ids) {
  const KnownAnswer known = KnownPartOf(tokenizer, answer_text, answer_ids);
  const KnownAnswer trimmed = Trimmed(tokenizer, answer_text, answer_ids, known);
  const auto remember = [&](const KnownAnswer& part) {
    if (part.num_ids == 0) return;
    Entry entry{.text = Joined(prompt), .ids = {}};
    Append(answer_text.substr(0, part.num_bytes), /*from_template=*/false, entry.text);
    entry.ids.reserve(prompt_ids.size() + part.num_ids);
    entry.ids.assign(prompt_ids.begin(), prompt_ids.end());
    entry.ids.insert(entry.ids.end(), answer_ids.begin(),
                     answer_ids.begin() + static_cast<ptrdiff_t>(part.num_ids));
    TextHash hash(entries_->hash_point);
    for (const PromptPiece& piece : entry.text) hash.Add(piece.text, piece.from_template);
    const Place place{.root = root, .num_bytes = NumBytes(entry.text), .hash = hash.value()};
    entries_->Insert(place, std::move(entry));
  };
  if (trimmed.num_ids != known.num_ids) remember(trimmed);
  remember(known);
}

std::optional<KnownBeginning> AnswerIndex::Find(const Digest& root,
                                                std::span<const PromptPiece> pieces) const {
  const std::vector<PromptPiece> text = Joined(pieces);
  const std::vector<size_t> lengths = entries_->LengthsOf(root, NumBytes(text));
  if (lengths.empty()) return std::nullopt;

  // The hash of the text up to each of the lengths.
  std::vector<Place> places;
  TextHash hash(entries_->hash_point);
  size_t begin = 0;
  for (const PromptPiece& piece : text) {
    size_t at = 0;
    while (places.size() < lengths.size() && lengths[places.size()] <= begin + piece.text.size()) {
      const size_t length = lengths[places.size()];
      hash.Add(std::string_view(piece.text).substr(at, length - begin - at), piece.from_template);
      at = length - begin;
      places.push_back({.root = root, .num_bytes = length, .hash = hash.value()});
    }
    if (places.size() == lengths.size()) break;
    hash.Add(std::string_view(piece.text).substr(at), piece.from_template);
    begin += piece.text.size();
  }

  std::vector<Entries::Item> hits;  // longest first
  {
    const std::lock_guard lock(entries_->mutex);
    for (size_t i = places.size(); i-- > 0;) {
      const auto known = entries_->by_place.find(places[i]);
      if (known != entries_->by_place.end()) hits.push_back(*known->second);
    }
  }
  for (const auto& [place, entry] : hits) {
    if (!BeginsWith(text, entry->text)) continue;
    const std::lock_guard lock(entries_->mutex);
    const auto known = entries_->by_place.find(place);
    if (known != entries_->by_place.end()) {
      entries_->by_use.splice(entries_->by_use.begin(), entries_->by_use, known->second);
    }
    return KnownBeginning{.num_bytes = place.num_bytes, .ids = entry->ids};
  }
  return std::nullopt;
}

size_t AnswerIndex::size_bytes() const {
  const std::lock_guard lock(entries_->mutex);
  return entries_->size_bytes;
}

}  // namespace quire
