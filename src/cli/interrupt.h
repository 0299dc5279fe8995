// Ctrl-C (and, for a server, SIGTERM) as a flag that long work asks about, so that it ends where it
// is whole.
#pragma once

namespace quire {

// From here on SIGINT sets the flag and ends nothing by itself.
void CatchInterrupts();
// Whether Ctrl-C came since the last ClearInterrupt.
bool Interrupted();
void ClearInterrupt();
// From here on SIGINT ends the process, as where nobody catches it.
void EndAtNextInterrupt();

// From here on SIGTERM sets the flag as SIGINT does; the second of them ends the process at once,
// with 128 and the signal's number. SIGHUP does nothing: a server outlives its terminal.
void CatchTermination();
// Sleeps until Interrupted(). After CatchTermination.
void WaitForInterrupt();

}  // namespace quire
