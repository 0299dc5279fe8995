// What a thread is called in `top -H`, in a debugger and in /proc.
#pragma once

namespace quire {

// The calling thread's name; at most 15 characters are kept.
void NameThisThread(const char* name);

}  // namespace quire
