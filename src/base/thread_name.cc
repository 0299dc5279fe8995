#include "base/thread_name.h"

#include <sys/prctl.h>

namespace quire {

void NameThisThread(const char* name) { ::prctl(PR_SET_NAME, name); }

}  // namespace quire
