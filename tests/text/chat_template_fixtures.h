// Inputs of template tests, and prompts as one text.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "text/chat_template/chat_template.h"

namespace quire::testing {

// {"messages": ..., "tools": ..., "extra": {...}, "trusted": {...}, ...} as the goldens hold it.
TemplateInput InputFrom(const jinja::Value& description);
jinja::Value Json(std::string_view text);

std::string Joined(const std::vector<PromptPiece>& pieces);
// The text alone, or "error: ..." in its place.
std::string Rendered(std::string_view source, const TemplateInput& input);
// Template text as it is, other text in guillemets: "<|user|>\n«hello»".
std::string WithMarks(std::string_view source, const TemplateInput& input);

// The four messages of the case files: system S, user U1, assistant A1, user U2.
TemplateInput FourMessages();

}  // namespace quire::testing
