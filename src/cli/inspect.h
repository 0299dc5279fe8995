// What a model file holds: its metadata, its tensors and the sums over them.
//
// Nothing is computed with the weights; only the header is read. Parameters are counted again from
// the shapes, and the bytes of keys and values that a token takes are worked out per layer from
// the file's own numbers, so that what a file says about itself can be checked.
//
// Strings out of the file are untrusted: the text form escapes what would drive a terminal, the
// JSON form replaces bytes that are not UTF-8 by U+FFFD. Both fail, naming the key, when the
// numbers behind the keys-and-values sum contradict each other; when they are absent, the sum is
// unknown.
#pragma once

#include <string>

#include "base/result.h"
#include "formats/gguf.h"

namespace quire {

// For people: long lists are shortened to their first elements and their length. Shapes are
// outermost first. Ends with a newline.
Result<std::string> InspectAsText(const GgufFile& file);

// One JSON object with everything, lists whole. Numbers that JSON cannot hold (NaN, infinities) are
// strings.
Result<std::string> InspectAsJson(const GgufFile& file);

}  // namespace quire
