#include "cli/subprocess.h"

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>

extern char** environ;

namespace quire {
namespace {

constexpr int kTickMs = 200;

Error SystemError(const char* what, int error) {
  return MakeError(ErrorCode::kIo, "{}: {}", what, std::strerror(error));
}

std::vector<std::string> MergedEnvironment(
    const std::vector<std::pair<std::string, std::string>>& changes) {
  std::vector<std::string> merged;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text(*entry);
    bool replaced = false;
    for (const auto& [name, value] : changes) replaced |= text.starts_with(name + "=");
    if (!replaced) merged.emplace_back(text);
  }
  for (const auto& [name, value] : changes) merged.push_back(name + "=" + value);
  return merged;
}

// The form that the system wants: pointers into `texts`, ended by null.
std::vector<char*> Pointers(std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  for (std::string& text : texts) pointers.push_back(text.data());
  pointers.push_back(nullptr);
  return pointers;
}

// Starts the program with `output_fd` as its standard output and error.
Result<pid_t> Spawn(const Subprocess& subprocess, int output_fd) {
  std::vector<std::string> arguments = subprocess.arguments;
  std::vector<std::string> environment = MergedEnvironment(subprocess.environment);
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  ::posix_spawn_file_actions_adddup2(&actions, output_fd, STDOUT_FILENO);
  ::posix_spawn_file_actions_adddup2(&actions, output_fd, STDERR_FILENO);
  // Whatever we do with these signals, the program starts with what they usually do.
  posix_spawnattr_t attributes;
  ::posix_spawnattr_init(&attributes);
  sigset_t defaults;
  ::sigemptyset(&defaults);
  ::sigaddset(&defaults, SIGINT);
  ::sigaddset(&defaults, SIGPIPE);
  ::posix_spawnattr_setsigdefault(&attributes, &defaults);
  ::posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGDEF);
  pid_t pid = 0;
  const int error = ::posix_spawnp(&pid, arguments[0].c_str(), &actions, &attributes,
                                   Pointers(arguments).data(), Pointers(environment).data());
  ::posix_spawnattr_destroy(&attributes);
  ::posix_spawn_file_actions_destroy(&actions);
  if (error == ENOENT) {
    return MakeError(ErrorCode::kNotFound, "{}: no such program in PATH", arguments[0]);
  }
  if (error != 0) return SystemError(arguments[0].c_str(), error);
  return pid;
}

// Reads until every writer has closed the pipe, keeping the end of what comes.
std::string ReadEnd(int fd, const std::function<void()>& on_tick) {
  std::string output;
  std::array<char, 4096> buffer;
  for (;;) {
    pollfd waiting{.fd = fd, .events = POLLIN, .revents = 0};
    const int ready = ::poll(&waiting, 1, kTickMs);
    if (on_tick) on_tick();
    if (ready == 0 || (ready < 0 && errno == EINTR)) continue;
    const ssize_t got = ::read(fd, buffer.data(), buffer.size());
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return output;
    output.append(buffer.data(), static_cast<size_t>(got));
    if (output.size() > Subprocess::kMaxOutputBytes) {
      output.erase(0, output.size() - Subprocess::kMaxOutputBytes);
    }
  }
}

}  // namespace

Result<SubprocessOutcome> Subprocess::Run() const {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return SystemError("pipe", errno);
  Result<pid_t> pid = Spawn(*this, ends[1]);
  ::close(ends[1]);
  if (!pid.ok()) {
    ::close(ends[0]);
    return pid.error();
  }
  SubprocessOutcome outcome;
  outcome.output = ReadEnd(ends[0], on_tick);
  ::close(ends[0]);
  int status = 0;
  while (::waitpid(*pid, &status, 0) < 0) {
    if (errno != EINTR) return SystemError("waitpid", errno);
  }
  outcome.exit_status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return outcome;
}

}  // namespace quire
