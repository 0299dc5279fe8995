// The version of docs/numerics.md: it changes with any number that the forward pass gives.
#pragma once

namespace quire {

inline constexpr int kNumericsVersion = 2;

}  // namespace quire
