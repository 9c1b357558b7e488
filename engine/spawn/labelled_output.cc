#include "engine/spawn/labelled_output.h"

#include <fcntl.h>
#include <limits.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "base/status.h"

namespace slipring::engine {
namespace {

constexpr std::size_t kMaxUnwrittenBytes = std::size_t{256} << 10;
constexpr std::size_t kMaxLineBytes = std::size_t{64} << 10;  // longer lines are shown in pieces
constexpr std::array kTargetFds{STDOUT_FILENO, STDERR_FILENO};

}  // namespace

Result<LabelledOutput::WriteEnds> LabelledOutput::add_rank(int rank) {
  WriteEnds write_ends;
  for (std::size_t target = 0; target < targets_.size(); ++target) {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) return base::errno_error(errno, "pipe");
    Source source{rank, target, base::FileDescriptor(ends[0]), {}};
    (target == 0 ? write_ends.output : write_ends.error).reset(ends[1]);
    // Only this end: the rank's own end blocks, as programs expect of their output.
    if (fcntl(ends[0], F_SETFL, O_NONBLOCK) != 0) return base::errno_error(errno, "fcntl");
    sources_.push_back(std::move(source));
  }
  return write_ends;
}

bool LabelledOutput::accepts(const Source& source) const noexcept {
  return source.read_end && targets_[source.target].unwritten.size() < kMaxUnwrittenBytes;
}

void LabelledOutput::fill_poll_entries(std::vector<pollfd>& entries) {
  for (const Source& source : sources_) {
    entries.push_back({accepts(source) ? source.read_end.get() : -1, POLLIN, 0});
  }
  for (std::size_t target = 0; target < targets_.size(); ++target) {
    entries.push_back({targets_[target].unwritten.empty() ? -1 : kTargetFds[target], POLLOUT, 0});
  }
}

void LabelledOutput::act(const std::vector<pollfd>& entries, std::size_t first) {
  for (std::size_t i = 0; i < sources_.size(); ++i) {
    if (entries[first + i].revents != 0) read_from(sources_[i]);
  }
  for (std::size_t target = 0; target < targets_.size(); ++target) {
    if (entries[first + sources_.size() + target].revents != 0) write_to(target);
  }
}

bool LabelledOutput::has_unwritten() const noexcept {
  return std::any_of(targets_.begin(), targets_.end(),
                     [](const Target& target) { return !target.unwritten.empty(); });
}

void LabelledOutput::drain() {
  for (Source& source : sources_) {
    // A pipe holds at most what its buffer does; bounded also if some descendant goes on writing.
    for (std::size_t bytes = 0; source.read_end && bytes < (std::size_t{1} << 20); bytes += 16384)
      read_from(source);
    if (!source.partial_line.empty()) add_text(source, "\n");
  }
}

void LabelledOutput::read_from(Source& source) {
  char bytes[16384];
  const ssize_t n = read(source.read_end.get(), bytes, sizeof(bytes));
  if (n > 0) return add_text(source, std::string_view(bytes, static_cast<std::size_t>(n)));
  if (n < 0 && (errno == EAGAIN || errno == EINTR)) return;
  source.read_end.reset();
  if (!source.partial_line.empty()) add_text(source, "\n");
}

void LabelledOutput::add_text(Source& source, std::string_view text) {
  Target& target = targets_[source.target];
  if (target.gone) return;
  while (!text.empty()) {
    const std::size_t end = text.find('\n');
    source.partial_line.append(text.substr(0, end));
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
    if (end == std::string_view::npos && source.partial_line.size() < kMaxLineBytes) return;
    target.unwritten += fmt::format("[{}] {}\n", source.rank, source.partial_line);
    source.partial_line.clear();
  }
}

void LabelledOutput::write_to(std::size_t index) {
  Target& target = targets_[index];
  // PIPE_BUF bytes fit without blocking into a pipe that poll() calls writable.
  const std::size_t bytes = std::min<std::size_t>(target.unwritten.size(), PIPE_BUF);
  const ssize_t n = write(kTargetFds[index], target.unwritten.data(), bytes);
  if (n >= 0) {
    target.unwritten.erase(0, static_cast<std::size_t>(n));
  } else if (errno != EAGAIN && errno != EINTR) {
    target.gone = true;
    target.unwritten.clear();
    for (Source& source : sources_) {
      if (source.target == index) source.read_end.reset();
    }
  }
}

}  // namespace slipring::engine
