// Any bytes as the lines of a trace: each is an event or an error; what is read is written and read
// again as the same; an analysis and Chrome's form bear whatever order they come in.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "trace/chrome_trace.h"
#include "trace/event_json.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  std::string_view text(reinterpret_cast<const char*>(data), size);
  std::string chrome_text;
  quire::ChromeTrace chrome({}, chrome_text);
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    const auto event = quire::EventFromJson(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
    if (!event.ok()) {
      if (event.error().message.empty()) std::abort();
      continue;
    }
    const std::string line = quire::EventAsJson(*event);
    const auto again = quire::EventFromJson(line);
    if (!again.ok() || quire::EventAsJson(*again) != line) std::abort();
    chrome.Add(*event);
  }
  chrome.End();
  return 0;
}
