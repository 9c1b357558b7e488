#include "engine/store/file_store.h"

#include <dirent.h>
#include <fcntl.h>
#include <openssl/sha.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <thread>
#include <vector>

#include "base/file_descriptor.h"
#include "base/status.h"
#include "engine/store/job_token.h"
#include "engine/store/store_table.h"

namespace slipring::engine {
namespace {

using std::chrono::microseconds;

constexpr char kLockName[] = "lock";
constexpr char kCounterLockName[] = "counter.lock";
constexpr std::string_view kFolderPrefix = "slipring-";
constexpr microseconds kFirstPause{200};
constexpr microseconds kLongestPause{20000};

class Pause {
 public:
  void sleep(const base::Deadline& deadline) {
    std::this_thread::sleep_for(std::min<std::chrono::nanoseconds>(next_, deadline.left()));
    next_ = std::min(next_ * 2, kLongestPause);
  }

 private:
  microseconds next_ = kFirstPause;
};

// Any key becomes a file name: its harmless characters for the reader, a digest to tell keys apart.
std::string file_name(std::string_view key) {
  std::array<std::uint8_t, SHA256_DIGEST_LENGTH> digest;
  SHA256(reinterpret_cast<const unsigned char*>(key.data()), key.size(), digest.data());
  std::string name = "k-";
  for (const char c : key.substr(0, 100)) {
    const bool harmless =
        (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-';
    name.push_back(harmless ? c : '_');
  }
  return name + "." + to_hex(std::span(digest).first(16));
}

// Names in a folder; empty if it cannot be read.
std::vector<std::string> names_in(int folder_fd) {
  std::vector<std::string> names;
  const int copy = openat(folder_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (copy < 0) return names;
  DIR* listing = fdopendir(copy);
  if (listing == nullptr) {
    ::close(copy);
    return names;
  }
  while (const dirent* entry = readdir(listing)) {
    const std::string_view name = entry->d_name;
    if (name != "." && name != "..") names.emplace_back(name);
  }
  closedir(listing);
  return names;
}

void wipe(int folder_fd) {
  for (const std::string& name : names_in(folder_fd)) {
    if (name != kLockName) unlinkat(folder_fd, name.c_str(), 0);
  }
}

// Whoever holds the lock of a folder that was removed meanwhile holds nothing.
bool is_lock_of(int folder_fd, int lock_fd) {
  struct stat held;
  struct stat named;
  return fstat(lock_fd, &held) == 0 && fstatat(folder_fd, kLockName, &named, AT_SYMLINK_NOFOLLOW) == 0 &&
         held.st_ino == named.st_ino && held.st_dev == named.st_dev;
}

// Removes a job's folder if nobody alive holds its lock; the caller's own lock is given up either way.
void remove_if_abandoned(int parent_fd, const std::string& name, int folder_fd, int lock_fd) {
  if (flock(lock_fd, LOCK_EX | LOCK_NB) != 0 || !is_lock_of(folder_fd, lock_fd)) return;
  wipe(folder_fd);
  unlinkat(folder_fd, kLockName, 0);
  unlinkat(parent_fd, name.c_str(), AT_REMOVEDIR);
}

// What killed jobs with other tokens left in the directory, so that a crash loop does not fill the disk.
void remove_abandoned_jobs(int parent_fd, const std::string& own_name) {
  for (const std::string& name : names_in(parent_fd)) {
    if (!name.starts_with(kFolderPrefix) || name.size() != own_name.size() || name == own_name) continue;
    const base::FileDescriptor folder(
        openat(parent_fd, name.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
    if (!folder) continue;
    const base::FileDescriptor lock(openat(folder.get(), kLockName, O_RDWR | O_NOFOLLOW | O_CLOEXEC));
    if (lock) remove_if_abandoned(parent_fd, name, folder.get(), lock.get());
  }
}

struct JobFolder {
  std::string path;  // for error texts
  std::string name;
  base::FileDescriptor parent;
  base::FileDescriptor folder;
  base::FileDescriptor lock;  // held shared as long as the store is open
};

class FileStore final : public Store {
 public:
  FileStore(std::string url, JobFolder job, std::string unique)
      : url_(std::move(url)), job_(std::move(job)), unique_(std::move(unique)) {}

  ~FileStore() override {
    remove_if_abandoned(job_.parent.get(), job_.name, job_.folder.get(), job_.lock.get());
  }

  Status set(std::string_view key, std::string_view value) override {
    if (Status status = check_store_value(key, value); !status) return status;
    Result<std::string> aside = write_aside(value);
    if (!aside) return std::move(aside).status();
    if (renameat(folder(), aside->c_str(), folder(), file_name(key).c_str()) == 0) return {};
    const int problem = errno;
    unlinkat(folder(), aside->c_str(), 0);
    return failed(problem, "rename", key);
  }

  Result<std::string> get(std::string_view key, const base::Deadline& deadline) override {
    Pause pause;
    for (;;) {
      Result<std::optional<std::string>> value = try_get(key);
      if (!value) return std::move(value).status();
      if (value->has_value()) return std::move(**value);
      if (deadline.passed()) {
        return base::error(StatusCode::timeout, "store key \"{}\" not set before the deadline; store {}", key,
                           url_);
      }
      pause.sleep(deadline);
    }
  }

  Result<std::optional<std::string>> try_get(std::string_view key) override {
    if (Status status = check_store_key(key); !status) return status;
    const base::FileDescriptor file(
        openat(folder(), file_name(key).c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC));
    if (!file) {
      if (errno == ENOENT) return std::optional<std::string>();
      return failed(errno, "open", key);
    }
    return read_value(file.get(), key);
  }

  Result<std::string> claim(std::string_view key, std::string_view value) override {
    if (Status status = check_store_value(key, value); !status) return status;
    Result<std::string> aside = write_aside(value);
    if (!aside) return aside;
    Result<std::string> present = link_unless_there(*aside, key, value);
    unlinkat(folder(), aside->c_str(), 0);
    return present;
  }

  Result<std::int64_t> add(std::string_view key, std::int64_t delta) override {
    if (Status status = check_store_key(key); !status) return status;
    const base::FileDescriptor lock(
        openat(folder(), kCounterLockName, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600));
    if (!lock) return failed(errno, "open of the counter lock", key);
    const base::Deadline deadline = base::Deadline::after(kStoreAnswerTimeout);
    // Polled, because flock has no deadline; a killed holder's lock is released by the kernel.
    for (Pause pause; flock(lock.get(), LOCK_EX | LOCK_NB) != 0;) {
      if (errno != EWOULDBLOCK && errno != EINTR) return failed(errno, "flock", key);
      if (deadline.passed()) {
        return base::error(StatusCode::timeout,
                           "store {}: counter lock held for {} s; key \"{}\"; is a rank stopped?", url_,
                           kStoreAnswerTimeout.count(), key);
      }
      pause.sleep(deadline);
    }
    Result<std::optional<std::string>> current = try_get(key);
    if (!current) return std::move(current).status();
    Result<std::int64_t> sum = add_to_counter(key, current->has_value() ? &**current : nullptr, delta);
    if (!sum) return sum;
    if (Status status = set(key, std::to_string(*sum)); !status) return status;
    return sum;
  }

  Status remove(std::string_view key) override {
    if (Status status = check_store_key(key); !status) return status;
    if (unlinkat(folder(), file_name(key).c_str(), 0) == 0 || errno == ENOENT) return {};
    return failed(errno, "unlink", key);
  }

  const std::string& url() const noexcept override { return url_; }

 private:
  int folder() const noexcept { return job_.folder.get(); }

  Status failed(int problem, std::string_view call, std::string_view key) const {
    Status status =
        base::errno_error(problem, fmt::format("{} in {} for store key \"{}\"", call, job_.path, key));
    return problem == ENOSPC
               ? std::move(status).with("the file system is full; choose another file:/// directory")
               : status;
  }

  // A file that nobody looks for yet; rename or link then shows it whole.
  Result<std::string> write_aside(std::string_view value) {
    std::string name = fmt::format("t-{}-{}", unique_, asides_.fetch_add(1, std::memory_order_relaxed));
    const base::FileDescriptor file(
        openat(folder(), name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
    if (!file) return failed(errno, "create", name);
    while (!value.empty()) {
      const ssize_t n = write(file.get(), value.data(), value.size());
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) {
        const int problem = errno;
        unlinkat(folder(), name.c_str(), 0);
        return failed(problem, "write", name);
      }
      value.remove_prefix(static_cast<std::size_t>(n));
    }
    return name;
  }

  Result<std::optional<std::string>> read_value(int fd, std::string_view key) const {
    std::string value;
    char bytes[16384];
    for (;;) {
      const ssize_t n = read(fd, bytes, sizeof(bytes));
      if (n == 0) return std::optional<std::string>(std::move(value));
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) return failed(errno, "read", key);
      if (value.size() + static_cast<std::size_t>(n) > kMaxStoreValueBytes) {
        return base::error(StatusCode::corrupt,
                           "file of store key \"{}\" in {} is above the limit of {} bytes", key, job_.path,
                           kMaxStoreValueBytes);
      }
      value.append(bytes, static_cast<std::size_t>(n));
    }
  }

  Result<std::string> link_unless_there(const std::string& aside, std::string_view key,
                                        std::string_view value) {
    const std::string name = file_name(key);
    const base::Deadline deadline = base::Deadline::after(kStoreAnswerTimeout);
    for (;;) {
      if (linkat(folder(), aside.c_str(), folder(), name.c_str(), 0) == 0) return std::string(value);
      if (errno != EEXIST) return failed(errno, "link", key);
      Result<std::optional<std::string>> present = try_get(key);
      if (!present) return std::move(present).status();
      if (present->has_value()) return std::move(**present);
      // Removed between the two calls: claim again.
      if (deadline.passed()) return base::error(StatusCode::timeout, "store key \"{}\" comes and goes", key);
    }
  }

  const std::string url_;
  const JobFolder job_;
  const std::string unique_;  // of this object, for the names of files written aside
  std::atomic<std::uint64_t> asides_{0};
};

Status cannot_open(int problem, std::string_view call, const std::string& path) {
  return base::errno_error(problem, fmt::format("{} {}", call, path))
      .with(
          "the store's directory must be on a file system that this rank may write to, below a directory "
          "that exists");
}

Status check_owner(const JobFolder& job) {
  struct stat about;
  if (fstat(job.folder.get(), &about) != 0) return cannot_open(errno, "fstat", job.path);
  if (about.st_uid == geteuid()) return {};
  return base::error(StatusCode::unavailable,
                     "{} belongs to user {}, not to {}; choose another file:/// directory", job.path,
                     about.st_uid, geteuid());
}

// One try to hold the folder's lock shared. False: somebody else was quicker at wiping or removing, try
// again.
Result<bool> try_join(JobFolder& job) {
  if (mkdirat(job.parent.get(), job.name.c_str(), 0700) != 0 && errno != EEXIST) {
    return cannot_open(errno, "mkdir", job.path);
  }
  job.folder.reset(
      openat(job.parent.get(), job.name.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (!job.folder) {
    if (errno == ENOENT) return false;
    return cannot_open(errno, "open", job.path);
  }
  if (Status status = check_owner(job); !status) return status;
  job.lock.reset(openat(job.folder.get(), kLockName, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600));
  if (!job.lock) {
    if (errno == ENOENT) return false;
    return cannot_open(errno, "open of the lock in", job.path);
  }
  if (flock(job.lock.get(), LOCK_EX | LOCK_NB) == 0) {
    if (!is_lock_of(job.folder.get(), job.lock.get())) return false;
    wipe(job.folder.get());
    remove_abandoned_jobs(job.parent.get(), job.name);
  }
  // Turning the lock from exclusive to shared may let another opener wipe in between: nothing is set yet.
  if (flock(job.lock.get(), LOCK_SH | LOCK_NB) != 0) {
    if (errno == EWOULDBLOCK || errno == EINTR) return false;
    return cannot_open(errno, "flock in", job.path);
  }
  return is_lock_of(job.folder.get(), job.lock.get());
}

}  // namespace

Result<std::shared_ptr<Store>> open_file_store(const std::string& directory, std::string_view job_token,
                                               const base::Deadline& deadline) {
  Result<JobNonce> nonce = job_nonce(job_token);
  if (!nonce) return std::move(nonce).status();
  std::array<std::uint8_t, 8> random;
  if (Status status = fill_random(random); !status) return status;
  JobFolder job;
  job.name = std::string(kFolderPrefix) + to_hex(*nonce);
  job.path = directory + "/" + job.name;
  if (mkdir(directory.c_str(), 0700) != 0 && errno != EEXIST) return cannot_open(errno, "mkdir", directory);
  job.parent.reset(open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!job.parent) return cannot_open(errno, "open", directory);
  for (Pause pause;;) {
    Result<bool> joined = try_join(job);
    if (!joined) return std::move(joined).status();
    if (*joined) {
      return std::shared_ptr<Store>(
          std::make_shared<FileStore>("file://" + directory, std::move(job), to_hex(random)));
    }
    if (deadline.passed()) {
      return base::error(StatusCode::timeout,
                         "store file://{}: lock of {} not free before the deadline; is a rank stopped?",
                         directory, job.path);
    }
    pause.sleep(deadline);
  }
}

}  // namespace slipring::engine
