// LabelledOutput: carries the ranks' standard output and error to this process's, "[rank] " before each line.
//
// Driven by its owner's poll loop: never blocks, holds at most a few hundred KiB, and stops reading a rank
// while the reader of this process's output is slow. When that reader is gone the ranks' pipes are closed, so
// that they see what they would have seen without a label. Used by one thread.
#pragma once

#include <poll.h>

#include <array>
#include <string>
#include <vector>

#include "base/file_descriptor.h"
#include "slipring/status.h"

namespace slipring::engine {

class LabelledOutput {
 public:
  struct WriteEnds {
    base::FileDescriptor output;
    base::FileDescriptor error;
  };
  /// The ends that rank's process gets; the caller closes its copies after the fork.
  Result<WriteEnds> add_rank(int rank);

  /// Appends what to wait for; act() takes the same entries back, from index `first` on.
  void fill_poll_entries(std::vector<pollfd>& entries);
  void act(const std::vector<pollfd>& entries, std::size_t first);

  bool has_unwritten() const noexcept;
  /// The ranks have ended: reads what is left in the pipes, without waiting for those who still hold them.
  void drain();

 private:
  struct Source {
    int rank = 0;
    std::size_t target = 0;  // 0: standard output, 1: standard error
    base::FileDescriptor read_end;
    std::string partial_line;
  };
  struct Target {
    std::string unwritten;
    bool gone = false;
  };
  void read_from(Source& source);
  void add_text(Source& source, std::string_view text);
  void write_to(std::size_t target);
  bool accepts(const Source& source) const noexcept;

  std::vector<Source> sources_;
  std::array<Target, 2> targets_;
};

}  // namespace slipring::engine
