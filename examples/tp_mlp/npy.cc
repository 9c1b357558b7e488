#include "npy.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <bit>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <memory>
#include <regex>

namespace tp_mlp {
namespace {

static_assert(std::endian::native == std::endian::little, "the reader does not swap bytes");

constexpr std::string_view kMagic = "\x93NUMPY";
// numpy itself refuses to parse longer headers.
constexpr std::size_t kMaxHeaderBytes = 10000;

std::size_t to_size(const std::string& digits) {
  if (digits.size() > 18) return SIZE_MAX;  // refused by the comparison with the file's size
  return std::stoull(digits);
}

}  // namespace

void NpyReader::fail(const std::string& what) const {
  throw NpyError(path_ + ": " + what);
}

NpyReader::NpyReader(const std::string& path) : path_(path), fd_(::open(path.c_str(), O_RDONLY | O_CLOEXEC)) {
  if (fd_ < 0) fail(std::string("cannot be opened: ") + std::strerror(errno));
  try {
    read_header();
  } catch (...) {
    ::close(fd_);
    throw;
  }
}

NpyReader::~NpyReader() {
  ::close(fd_);
}

void NpyReader::read_header() {
  struct stat info {};
  if (::fstat(fd_, &info) != 0) fail(std::string("cannot be examined: ") + std::strerror(errno));
  file_bytes_ = static_cast<std::size_t>(info.st_size);

  // Magic, format version, length of the description (2 bytes in version 1, 4 later), description, data.
  std::array<unsigned char, 12> start{};
  if (file_bytes_ < start.size()) fail("too short for a .npy file");
  read_bytes(start.data(), start.size(), 0);
  if (std::memcmp(start.data(), kMagic.data(), kMagic.size()) != 0) fail("not a .npy file");
  const int version = start[6];
  if (version < 1 || version > 3) fail("format version " + std::to_string(version) + " is not known");
  std::size_t header_bytes = start[8] | start[9] << 8;
  std::size_t header_offset = 10;
  if (version > 1) {
    header_bytes |= std::size_t{start[10]} << 16 | std::size_t{start[11]} << 24;
    header_offset = 12;
  }
  if (header_bytes > kMaxHeaderBytes || header_offset + header_bytes > file_bytes_) {
    fail("its header of " + std::to_string(header_bytes) + " bytes is too long");
  }
  std::string header(header_bytes, '\0');
  read_bytes(header.data(), header_bytes, header_offset);
  data_offset_ = header_offset + header_bytes;

  std::smatch found;
  if (!std::regex_search(header, found, std::regex(R"('descr':\s*'([^']*)')")))
    fail("its header has no dtype");
  if (found[1] != "<f4") fail("its dtype is " + found[1].str() + "; only <f4 (float32) is read");
  if (!std::regex_search(header, std::regex(R"('fortran_order':\s*False)"))) fail("not in C order");
  if (!std::regex_search(header, found, std::regex(R"('shape':\s*\(\s*(\d+)L?,\s*(\d+)L?,?\s*\))"))) {
    fail("not two-dimensional");
  }
  rows_ = to_size(found[1]);
  columns_ = to_size(found[2]);
  const std::size_t elements = (file_bytes_ - data_offset_) / sizeof(float);
  const bool product_fits = rows_ == 0 || columns_ == 0 || rows_ <= elements / columns_;
  if (!product_fits || data_offset_ + rows_ * columns_ * sizeof(float) != file_bytes_) {
    fail("its shape (" + found[1].str() + ", " + found[2].str() + ") does not fit its size of " +
         std::to_string(file_bytes_) + " bytes");
  }
}

void NpyReader::read_bytes(void* out, std::size_t bytes, std::size_t offset) const {
  auto* to = static_cast<char*>(out);
  while (bytes > 0) {
    const ssize_t got = ::pread(fd_, to, bytes, static_cast<off_t>(offset));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) fail(std::string("cannot be read: ") + std::strerror(errno));
    if (got == 0) fail("ended at byte " + std::to_string(offset) + "; it was shortened while being read");
    to += got;
    offset += static_cast<std::size_t>(got);
    bytes -= static_cast<std::size_t>(got);
  }
}

void NpyReader::read(Range rows, Range columns, std::span<float> out) const {
  if (rows.begin > rows.end || rows.end > rows_ || columns.begin > columns.end || columns.end > columns_ ||
      out.size() != rows.size() * columns.size()) {
    throw std::logic_error("NpyReader::read: the slice is outside of the matrix");
  }
  const auto offset_of = [&](std::size_t row) {
    return data_offset_ + (row * columns_ + columns.begin) * sizeof(float);
  };
  if (columns.size() == columns_) {  // whole rows lie side by side
    read_bytes(out.data(), out.size_bytes(), offset_of(rows.begin));
    return;
  }
  for (std::size_t row = rows.begin; row < rows.end; ++row) {
    read_bytes(out.data() + (row - rows.begin) * columns.size(), columns.size() * sizeof(float),
               offset_of(row));
  }
}

void write_npy(const std::string& path, std::size_t rows, std::size_t columns, std::span<const float> data) {
  if (data.size() != rows * columns) throw std::logic_error("write_npy: the data does not fit the shape");
  std::string header = "{'descr': '<f4', 'fortran_order': False, 'shape': (" + std::to_string(rows) + ", " +
                       std::to_string(columns) + "), }";
  // The data starts at a multiple of 64, and the header ends with a newline, as numpy asks.
  header.append(63 - (10 + header.size()) % 64, ' ');
  header += '\n';

  const std::string aside = path + ".part" + std::to_string(::getpid());
  const auto fail = [&] {
    const std::string cause = std::strerror(errno);
    std::remove(aside.c_str());
    throw NpyError(path + ": cannot be written: " + cause);
  };
  std::FILE* file = std::fopen(aside.c_str(), "wbe");
  if (!file) fail();
  const std::array<char, 4> version_and_length{1, 0, static_cast<char>(header.size() & 0xff),
                                               static_cast<char>(header.size() >> 8)};
  const bool written = std::fwrite(kMagic.data(), 1, kMagic.size(), file) == kMagic.size() &&
                       std::fwrite(version_and_length.data(), 1, 4, file) == 4 &&
                       std::fwrite(header.data(), 1, header.size(), file) == header.size() &&
                       std::fwrite(data.data(), sizeof(float), data.size(), file) == data.size();
  const bool closed = std::fclose(file) == 0;
  if (!written || !closed || std::rename(aside.c_str(), path.c_str()) != 0) fail();
}

}  // namespace tp_mlp
