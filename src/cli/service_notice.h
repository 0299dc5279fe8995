// Tells the service manager how the process stands, in the protocol of sd_notify(3).
#pragma once

#include <string_view>

namespace quire {

// "READY=1", "STOPPING=1". Does nothing without NOTIFY_SOCKET in the environment, and never fails:
// who is not told asks in another way.
void NotifyServiceManager(std::string_view state);

}  // namespace quire
