// `quire explain request ID` and `quire explain miss ID`: one request of a trace, its whole life
// and each wait, and why more of its prompt was not found.
#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <boost/json.hpp>
#include <memory>

#include "cli/explain.h"
#include "cli/html_file.h"
#include "cli/trace_flags.h"
#include "cli/verbs.h"
#include "formats/printable.h"
#include "trace/event_json.h"
#include "trace/trace_analysis.h"
#include "trace/trace_reader.h"

namespace quire {
namespace {

struct RequestFlags {
  std::string id;
  std::string trace;
  std::string html;
  bool json = false;
};

// A reason as people say it.
std::string Words(std::string reason) {
  if (reason == "none") return "";
  for (char& c : reason) {
    if (c == '_') c = ' ';
  }
  return reason;
}

// The lives of all requests of that number or name: the prompts of one call share its name.
Result<std::vector<RequestLife>> LivesOf(const RequestFlags& flags) {
  QUIRE_ASSIGN_OR_RETURN(TraceReader reader, TraceReader::Open(flags.trace));
  TraceAnalysis analysis({.only_request = flags.id});
  while (!flags.id.empty()) {
    QUIRE_ASSIGN_OR_RETURN(const std::optional<TraceEvent> event, reader.Next());
    if (!event) break;
    analysis.Add(*event);
  }
  std::vector<RequestLife> lives = analysis.TakeEnded();
  for (RequestLife& life : analysis.TakeRest()) lives.push_back(std::move(life));
  if (lives.empty()) {
    return MakeError(ErrorCode::kNotFound,
                     "the trace {} has no request '{}'; `quire explain trace {} -n 0` lists them",
                     flags.trace, Printable(flags.id, 80), flags.trace);
  }
  if (analysis.counters().dropped_events > 0) {
    fmt::print(stderr, "quire: the trace lacks {} events; what follows may be incomplete\n",
               analysis.counters().dropped_events);
  }
  return lives;
}

std::string HeadOf(const RequestLife& life) {
  const RequestEvent& request = life.request;
  std::string text = fmt::format("{} {}", request.is_pin ? "pin" : "request", request.request);
  if (!request.name.empty()) text += fmt::format(" ({})", Printable(request.name, 80));
  return text;
}

// Text that was made printable when it was told. A file may hold anything, so it is made so again,
// but for the backslashes that it has by then.
std::string PrintableAgain(std::string_view text, size_t max_bytes) {
  std::string shown;
  while (true) {
    const size_t backslash = text.find('\\');
    const std::string_view piece = text.substr(0, backslash);
    shown += Printable(piece, max_bytes);
    if (piece.size() > max_bytes || backslash == std::string_view::npos) return shown;
    max_bytes -= piece.size();
    if (max_bytes == 0) return shown + "...";
    --max_bytes;
    shown += '\\';
    text.remove_prefix(backslash + 1);
  }
}

std::string StepsOf(const LifeSpan& span) {
  if (span.num_steps == 0) return "";
  if (span.num_steps == 1) return fmt::format("{}", span.first_step);
  return fmt::format("{}..{}", span.first_step, span.last_step);
}

std::string TokensOf(const LifeSpan& span) {
  if (span.num_steps == 0) return "";
  if (span.kind == LifeKind::kDecode) return fmt::format("{}", span.num_tokens);
  return fmt::format("{}..{}", span.first_position, span.first_position + span.line_tokens - 1);
}

std::string WhyOf(const LifeSpan& span) {
  std::string text = Words(span.reason);
  if (span.other != 0) text += fmt::format(" (sequence {})", span.other);
  if (span.between_steps >= 0.001) {
    text += fmt::format("{}{:.3f} ms between steps", text.empty() ? "" : "; ", span.between_steps);
  }
  return text;
}

void PrintLife(const RequestLife& life) {
  fmt::print("{}: {} prompt tokens", HeadOf(life), life.request.prompt_tokens);
  if (life.end) {
    const EndEvent& end = *life.end;
    fmt::print(", {} cached, {} generated; ended: {}\n",
               int64_t{end.cached_memory} + end.cached_disk + end.cached_remote,
               end.completion_tokens, Printable(end.reason));
  } else {
    fmt::print("; the trace ends before it does\n");
  }
  fmt::print("{:>12}{:>12}  {:<15}{:>13}{:>13}  {}\n", "from ms", "ms", "what", "steps", "tokens",
             "why");
  for (const LifeSpan& span : life.spans) {
    fmt::print("{:>12.3f}{:>12.3f}  {:<15}{:>13}{:>13}  {}\n", span.begin_ms - life.request.ms,
               span.ms(), Words(std::string(NameOf(span.kind))), StepsOf(span), TokensOf(span),
               Printable(WhyOf(span), 120));
  }
  fmt::print("in all:");
  bool is_first = true;
  for (int i = 0; i < kNumLifeKinds; ++i) {
    if (life.total_ms[i] == 0) continue;
    fmt::print("{} {} {:.3f} ms", is_first ? "" : ",",
               Words(std::string(NameOf(static_cast<LifeKind>(i)))), life.total_ms[i]);
    is_first = false;
  }
  fmt::print("; together {:.3f} ms", life.sum_ms());
  if (life.end) {
    fmt::print(" of {:.3f} ms", life.end->total_ms);
    if (life.end->first_token_ms > 0) {
      fmt::print(", the first token after {:.3f} ms", life.end->first_token_ms);
    } else if (!life.request.is_pin) {
      fmt::print("; no token came");
    }
  }
  fmt::print("\n");
}

// A pin ends when its prompt is computed, and draws no token.
bool ComputedItsPrompt(const EndEvent& end) {
  return end.prompt_computed || (end.is_pin && end.reason == "stop");
}

void PrintMiss(const RequestLife& life) {
  if (!life.end) {
    fmt::print("{}: the trace ends before it does, and tells of the cache at a request's end\n",
               HeadOf(life));
    return;
  }
  const EndEvent& end = *life.end;
  const int64_t cached = int64_t{end.cached_memory} + end.cached_disk + end.cached_remote;
  const bool has_missed = !end.miss.empty() && end.miss != "none";
  if (!ComputedItsPrompt(end)) {
    fmt::print("{}: it ended before its prompt was computed ({})\n", HeadOf(life),
               Printable(end.reason));
    if (cached == 0 && !has_missed) return;
  }
  fmt::print(
      "{}: {} of {} prompt tokens were found: {} in memory, {} on disk, {} in a remote tier\n",
      HeadOf(life), cached, end.prompt_tokens, end.cached_memory, end.cached_disk,
      end.cached_remote);
  if (!has_missed) {
    fmt::print("nothing was missed: {}\n",
               cached + 1 >= end.prompt_tokens
                   ? "the last token of a prompt is computed in any case"
                   : "tiers keep whole blocks, and what is behind the last of them is computed");
  } else {
    fmt::print("why not more, from token {} on: {}\n", end.miss_position,
               PrintableAgain(end.miss_text, 1000));
  }
}

boost::json::object SpanAsJson(const LifeSpan& span) {
  boost::json::object object = {{"kind", NameOf(span.kind)},
                                {"begin_ms", span.begin_ms},
                                {"end_ms", span.end_ms},
                                {"ms", span.ms()},
                                {"reason", span.reason}};
  if (span.other != 0) object["other"] = span.other;
  if (span.num_steps > 0) {
    object["first_step"] = span.first_step;
    object["last_step"] = span.last_step;
    object["steps"] = span.num_steps;
    object["first_position"] = span.first_position;
    object["tokens"] = span.num_tokens;
    object["between_steps_ms"] = span.between_steps;
  }
  return object;
}

boost::json::value EventAsValue(const TraceEvent& event) {
  return boost::json::parse(EventAsJson(event));
}

boost::json::object LifeAsJson(const RequestLife& life) {
  boost::json::array spans;
  for (const LifeSpan& span : life.spans) spans.push_back(SpanAsJson(span));
  boost::json::object totals;
  for (int i = 0; i < kNumLifeKinds; ++i) {
    totals[NameOf(static_cast<LifeKind>(i))] = life.total_ms[i];
  }
  boost::json::object object = {{"request", EventAsValue(life.request)},
                                {"spans", std::move(spans)},
                                {"total_ms_by_kind", std::move(totals)},
                                {"sum_ms", life.sum_ms()}};
  if (life.end) object["end"] = EventAsValue(*life.end);
  return object;
}

Status Explain(const RequestFlags& flags, std::string_view view,
               void (*print)(const RequestLife& life)) {
  QUIRE_ASSIGN_OR_RETURN(const std::vector<RequestLife> lives, LivesOf(flags));
  boost::json::array requests;
  for (const RequestLife& life : lives) requests.push_back(LifeAsJson(life));
  if (!flags.html.empty()) {
    QUIRE_RETURN_IF_ERROR(CheckKeepsTrace(flags.trace, "--html", flags.html));
    const boost::json::object data = {{"view", view}, {"requests", requests}};
    QUIRE_RETURN_IF_ERROR(WriteHtmlFile(flags.html, boost::json::serialize(data)));
  }
  if (flags.json) {
    fmt::print("{}\n", boost::json::serialize(boost::json::object{{"requests", requests}}));
    return {};
  }
  for (const RequestLife& life : lives) print(life);
  return {};
}

void AddSubject(CLI::App& verb, const std::string& name, const std::string& description,
                void (*print)(const RequestLife& life), int& exit_code) {
  CLI::App* subject = verb.add_subcommand(name, description);
  auto flags = std::make_shared<RequestFlags>();
  subject
      ->add_option("ID", flags->id,
                   "the request: its number in the trace, or its name (the id of the server's "
                   "answer, or the custom_id of a batch)")
      ->required();
  subject->add_option("--trace", flags->trace, "the file that --trace of the run wrote")
      ->required();
  subject->add_flag("--json", flags->json, "for programs");
  subject->add_option("--html", flags->html,
                      "also write a page of it to this file: it holds all it needs");
  subject->callback(
      [flags, name, print, &exit_code] { exit_code = Report(Explain(*flags, name, print)); });
}

}  // namespace

void AddExplainRequest(CLI::App& verb, int& exit_code) {
  AddSubject(verb, "request", "The whole life of a request in a trace, and each wait", PrintLife,
             exit_code);
  AddSubject(verb, "miss", "Why more of a request's prompt was not found in the cache", PrintMiss,
             exit_code);
}

}  // namespace quire
