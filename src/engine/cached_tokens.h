// Where a prompt's cached tokens came from: plain data.
#pragma once

namespace quire {

struct CachedTokens {
  int memory = 0;
  int disk = 0;
  int remote = 0;

  int sum() const { return memory + disk + remote; }
};

}  // namespace quire
