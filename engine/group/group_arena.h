// GroupArena: address space from which one rank of a job takes the memory of the groups that are formed later.
//
// One sparse segment, which every rank of the job has mapped since it joined: a group costs no descriptor and no
// mapping. A region is address space; whoever uses it commits what it needs. Retired regions go back, memory and
// all, once no peer looks at them any more. Any thread.
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "base/segment.h"

namespace slipring::engine {

class GroupArena {
 public:
  explicit GroupArena(std::shared_ptr<base::Segment> segment);

  /// A range that reads as zero, page-aligned. out_of_memory names the key to raise.
  Result<std::size_t> allocate(std::size_t bytes);
  /// `unused` is asked, now and at later calls, whether the range may be given back; it may outlive the caller.
  void retire(std::size_t offset, std::size_t bytes, std::function<bool()> unused);

  const std::shared_ptr<base::Segment>& segment() const noexcept { return segment_; }
  /// Address space in use or retired, in bytes.
  std::size_t taken_bytes() const;

 private:
  struct Retired {
    std::size_t offset, bytes;
    std::function<bool()> unused;
  };
  void reclaim();
  void give_back(std::size_t offset, std::size_t bytes);

  const std::shared_ptr<base::Segment> segment_;
  mutable std::mutex mutex_;                   ///< guards the rest
  std::map<std::size_t, std::size_t> free_;    ///< bytes by offset; neighbours are merged
  std::vector<Retired> retired_;
};

}  // namespace slipring::engine
