// Ctrl-C as a flag that long work asks about, so that it ends where it is whole.
#pragma once

namespace quire {

// From here on SIGINT sets the flag and ends nothing by itself.
void CatchInterrupts();
// Whether Ctrl-C came since the last ClearInterrupt.
bool Interrupted();
void ClearInterrupt();

}  // namespace quire
