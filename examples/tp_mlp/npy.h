// Files of numpy arrays (.npy, format versions 1 to 3): two-dimensional, f32, little-endian, C order.
//
// Everything a file says about itself is checked against its size before a byte of data is read; what does
// not fit throws NpyError, whose text starts with the path. A matrix may be read in part: each rank of a
// tensor-parallel job reads only its slice. NpyReader owns its descriptor; one thread at a time.
#pragma once

#include <cstddef>
#include <span>
#include <stdexcept>
#include <string>

namespace tp_mlp {

class NpyError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Half-open range of rows or columns.
struct Range {
  std::size_t begin = 0;
  std::size_t end = 0;
  std::size_t size() const noexcept { return end - begin; }
};

class NpyReader {
 public:
  explicit NpyReader(const std::string& path);
  ~NpyReader();
  NpyReader(const NpyReader&) = delete;
  NpyReader& operator=(const NpyReader&) = delete;

  const std::string& path() const noexcept { return path_; }
  std::size_t rows() const noexcept { return rows_; }
  std::size_t columns() const noexcept { return columns_; }
  /// The given rows and columns, row by row; `out` holds exactly that many elements.
  void read(Range rows, Range columns, std::span<float> out) const;

 private:
  void read_header();
  void read_bytes(void* out, std::size_t bytes, std::size_t offset) const;
  [[noreturn]] void fail(const std::string& what) const;

  std::string path_;
  int fd_ = -1;
  std::size_t file_bytes_ = 0;
  std::size_t data_offset_ = 0;
  std::size_t rows_ = 0;
  std::size_t columns_ = 0;
};

/// Writes aside and renames: `path` is either the old file or the whole new one.
void write_npy(const std::string& path, std::size_t rows, std::size_t columns, std::span<const float> data);

}  // namespace tp_mlp
