// The store of ranks that are threads of one process: a table, a mutex and a condition variable.
#include <condition_variable>
#include <limits>
#include <mutex>

#include "base/status.h"
#include "engine/store/store.h"
#include "engine/store/store_table.h"

namespace slipring::engine {
namespace {

class MemoryStore final : public Store {
 public:
  Status set(std::string_view key, std::string_view value) override {
    const std::lock_guard lock(mutex_);
    Status status = table_.set(key, value);
    changed_.notify_all();
    return status;
  }

  Result<std::string> get(std::string_view key, const base::Deadline& deadline) override {
    if (Status status = check_store_key(key); !status) return status;
    std::unique_lock lock(mutex_);
    for (;;) {
      if (const std::string* value = table_.find(key)) return *value;
      if (deadline.passed()) {
        return base::error(StatusCode::timeout, "store key \"{}\" not set before the deadline; store memory",
                           key);
      }
      // Waiting in slices keeps a deadline of "never" out of the clock's overflow.
      changed_.wait_for(lock, std::chrono::milliseconds(deadline.left_ms(1000)));
    }
  }

  Result<std::optional<std::string>> try_get(std::string_view key) override {
    if (Status status = check_store_key(key); !status) return status;
    const std::lock_guard lock(mutex_);
    const std::string* value = table_.find(key);
    return value == nullptr ? std::optional<std::string>() : std::optional<std::string>(*value);
  }

  Result<std::string> claim(std::string_view key, std::string_view value) override {
    if (Status status = check_store_value(key, value); !status) return status;
    const std::lock_guard lock(mutex_);
    Result<std::string> present = table_.claim(key, value);
    changed_.notify_all();
    return present;
  }

  Result<std::int64_t> add(std::string_view key, std::int64_t delta) override {
    const std::lock_guard lock(mutex_);
    Result<std::int64_t> sum = table_.add(key, delta);
    changed_.notify_all();
    return sum;
  }

  Status remove(std::string_view key) override {
    if (Status status = check_store_key(key); !status) return status;
    const std::lock_guard lock(mutex_);
    table_.remove(key);
    return {};
  }

  const std::string& url() const noexcept override { return url_; }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  StoreTable table_{std::numeric_limits<std::size_t>::max() / 2};  // the ranks share one address space anyway
  const std::string url_ = "memory";
};

}  // namespace

std::shared_ptr<Store> make_memory_store() {
  return std::make_shared<MemoryStore>();
}

}  // namespace slipring::engine
