// What the live page is told, as JSON. Pure functions, any thread.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "server/live/live_hub.h"

namespace quire {

// A server-sent event "snapshot".
std::string SnapshotMessage(const LiveSnapshot& snapshot, const LiveStatus& status);

// A server-sent event "events": as much of the events as `detail` asks for, with the number of
// those that are missing before them in front. Empty where nothing is left.
std::string EventsMessage(std::span<const std::shared_ptr<const TraceEvent>> events,
                          uint64_t dropped, const LiveDetail& detail);

}  // namespace quire
