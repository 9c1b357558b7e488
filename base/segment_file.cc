#include "base/segment_file.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <memory>
#include <string_view>

#include "base/syscalls.h"

namespace slipring::base {

namespace {

constexpr const char* kShmFolder = "/dev/shm";
constexpr std::string_view kShmPrefix = "slipring-";
constexpr mode_t kOwnerOnly = 0600;
constexpr unsigned kNoExecSeal = 0x0008;  // MFD_NOEXEC_SEAL, which Debian 12's headers lack

std::size_t file_page_bytes(int fd) {
  struct statfs fs {};
  return ::fstatfs(fd, &fs) == 0 ? static_cast<std::size_t>(fs.f_bsize) : 0;
}

// The lock belongs to the open file and goes with the last process that holds it open, however it ends and in
// whatever pid namespace it lives; that is why it, and not a pid, tells whether the file is still wanted.
bool lock_file(int fd) {
  return ::flock(fd, LOCK_EX | LOCK_NB) == 0;
}

bool has_a_name(int fd) {
  struct stat file {};
  return ::fstat(fd, &file) == 0 && file.st_nlink > 0;
}

bool is_segment_name(std::string_view name) {
  return name.size() == kShmPrefix.size() + 32 && name.starts_with(kShmPrefix) &&
         name.find_first_not_of("0123456789abcdef", kShmPrefix.size()) == std::string_view::npos;
}

void remove_if_stale(int folder, const char* name) noexcept {
  const FileDescriptor fd(::openat(folder, name, O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  if (!fd) return;
  struct stat file {};
  if (::fstat(fd.get(), &file) != 0 || !S_ISREG(file.st_mode) || file.st_uid != ::geteuid()) return;
  if (lock_file(fd.get())) ::unlinkat(folder, name, 0);
}

}  // namespace

Result<SegmentFile> make_memfd(bool huge_pages) {
  SegmentFile file;
  const unsigned flags = MFD_CLOEXEC | MFD_ALLOW_SEALING | (huge_pages ? MFD_HUGETLB : 0U);
  // Hardened hosts (vm.memfd_noexec) refuse a file that could be executed; kernels before 6.3 refuse the
  // flag.
  file.fd.reset(syscalls().memfd_create(kMemfdName, flags | kNoExecSeal));
  if (!file.fd && errno == EINVAL) file.fd.reset(syscalls().memfd_create(kMemfdName, flags));
  if (!file.fd) return errno_error(errno, huge_pages ? "memfd_create with huge pages" : "memfd_create");
  file.page_bytes = file_page_bytes(file.fd.get());
  return file;
}

Result<SegmentFile> make_shm_file(const SegmentAddress& address) {
  SegmentFile file;
  file.fd.reset(syscalls().open(kShmFolder, O_TMPFILE | O_RDWR | O_CLOEXEC, kOwnerOnly));
  if (!file.fd) {
    const std::string path = address.shm_path();
    file.fd.reset(
        syscalls().open(path.c_str(), O_CREAT | O_EXCL | O_RDWR | O_CLOEXEC | O_NOFOLLOW, kOwnerOnly));
    if (!file.fd) return errno_error(errno, fmt::format("creating {}", path));
    file.has_name = true;
  }
  // Another process's sweep may have found the named file in the instant before it was locked.
  if (!lock_file(file.fd.get()) || (file.has_name && !has_a_name(file.fd.get()))) {
    return error(StatusCode::would_block, "{} was taken for a stale file", address.shm_path());
  }
  file.page_bytes = file_page_bytes(file.fd.get());
  return file;
}

Status link_shm_file(int fd, const SegmentAddress& address) {
  const std::string from = fmt::format("/proc/self/fd/{}", fd);
  const std::string to = address.shm_path();
  if (::linkat(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), AT_SYMLINK_FOLLOW) == 0) return {};
  return errno_error(errno, fmt::format("linking {}", to));
}

void remove_stale_shm_files() noexcept {
  const std::unique_ptr<DIR, int (*)(DIR*)> folder(::opendir(kShmFolder), &::closedir);
  if (!folder) return;
  while (const dirent* entry = ::readdir(folder.get())) {
    if (is_segment_name(entry->d_name)) remove_if_stale(::dirfd(folder.get()), entry->d_name);
  }
}

}  // namespace slipring::base
