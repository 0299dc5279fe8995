// The names that this server may be asked by.
//
// A web page can have its own site's name resolve to this machine's address (DNS rebinding). The
// browser then takes this server for a part of that site, and lets the page read what it answers.
// The Host header gives that away: it still holds the site's name.
//
// Its own are, without being listed: addresses, which nobody resolves; localhost and all names
// below it; the machine's name, also with ".local"; and no name at all, as in HTTP/1.0, since
// browsers always send one. Const after creation: any thread.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace quire {

// A name ("quire"), all names below one ("*.example.com", which example.com is not), or "*": any.
bool IsHostPattern(std::string_view text);

class HostNames {
 public:
  // Of further names; what is no pattern matches nothing, or itself.
  explicit HostNames(std::span<const std::string> patterns = {});

  // `host` as the header has it: of any case, with or without a port or a dot behind the name.
  bool Has(std::string_view host) const;

 private:
  std::vector<std::string> patterns_;  // in lower case
  bool has_any_ = false;
};

}  // namespace quire
