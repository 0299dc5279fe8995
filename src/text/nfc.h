// Unicode normalisation.
#pragma once

#include <string>
#include <string_view>

namespace quire {

// Normalization Form C (Unicode Standard Annex 15) of a valid UTF-8 text. n log n where combining
// marks must be sorted, linear otherwise. Any thread may call it.
std::string NormalizeNfc(std::string_view text);

}  // namespace quire
