#include "npy.h"

#include <gmock/gmock.h>

#include <cstring>
#include <numeric>
#include <vector>

#include "tests/base/temporary_folder.h"

namespace tp_mlp {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

class Npy : public testing::Test {
 protected:
  /// A file of format `version` with this description and so many bytes of data.
  std::string file(const std::string& description, std::size_t data_bytes, int version = 1) const {
    std::string text = "\x93NUMPY";
    text += static_cast<char>(version);
    text += '\0';
    const std::size_t length = description.size();
    for (int i = 0; i < (version == 1 ? 2 : 4); ++i) text += static_cast<char>(length >> (8 * i));
    return folder_.write("x.npy", text + description + std::string(data_bytes, '\0'));
  }
  static std::string shaped(const std::string& shape) {
    return "{'descr': '<f4', 'fortran_order': False, 'shape': " + shape + ", }\n";
  }
  std::string error_of(const std::string& path) const {
    try {
      NpyReader reader(path);
    } catch (const NpyError& error) {
      EXPECT_THAT(error.what(), HasSubstr(path));
      return error.what();
    }
    return "no error";
  }

  slipring::tests::TemporaryFolder folder_;
};

TEST_F(Npy, WhatIsWrittenIsReadBack) {
  const std::string path = folder_.path("y.npy");
  std::vector<float> data(3 * 5);
  std::iota(data.begin(), data.end(), 0.5F);
  write_npy(path, 3, 5, data);
  const NpyReader reader(path);
  EXPECT_EQ(reader.rows(), 3U);
  EXPECT_EQ(reader.columns(), 5U);
  std::vector<float> back(15);
  reader.read({0, 3}, {0, 5}, back);
  EXPECT_EQ(back, data);
}

TEST_F(Npy, DataOfAWrittenFileStartsAtAMultipleOf64) {
  for (const std::size_t rows : {1U, 10U, 1000U, 123456U}) {
    write_npy(folder_.path("y.npy"), rows, 1, std::vector<float>(rows));
    const std::string text = slipring::tests::read_text(folder_.path("y.npy"));
    EXPECT_EQ((text.size() - rows * 4) % 64, 0U);
    EXPECT_EQ(text[text.size() - rows * 4 - 1], '\n');
  }
}

TEST_F(Npy, SlicesOfRowsAndColumnsAreReadAlone) {
  const std::string path = folder_.path("y.npy");
  std::vector<float> data(4 * 6);
  std::iota(data.begin(), data.end(), 0.0F);
  write_npy(path, 4, 6, data);
  const NpyReader reader(path);
  std::vector<float> slice(4);
  reader.read({1, 3}, {4, 6}, slice);
  EXPECT_THAT(slice, ElementsAre(10, 11, 16, 17));
  std::vector<float> rows(6);
  reader.read({3, 4}, {0, 6}, rows);
  EXPECT_THAT(rows, ElementsAre(18, 19, 20, 21, 22, 23));
  std::vector<float> nothing;
  reader.read({2, 2}, {0, 6}, nothing);
  reader.read({0, 4}, {6, 6}, nothing);
  EXPECT_THROW(reader.read({0, 5}, {0, 6}, slice), std::logic_error);
  EXPECT_THROW(reader.read({0, 1}, {0, 6}, slice), std::logic_error);
}

TEST_F(Npy, AllFormatVersionsAreRead) {
  for (const int version : {1, 2, 3}) {
    const NpyReader reader(file(shaped("(2, 3)"), 24, version));
    EXPECT_EQ(reader.rows() * reader.columns(), 6U);
  }
}

TEST_F(Npy, EmptyMatricesAreRead) {
  EXPECT_EQ(NpyReader(file(shaped("(0, 7)"), 0)).columns(), 7U);
  EXPECT_EQ(NpyReader(file(shaped("(7, 0)"), 0)).rows(), 7U);
}

TEST_F(Npy, WhatIsNoMatrixOfFloatsIsRefusedWithTheReason) {
  EXPECT_THAT(error_of(folder_.path("missing.npy")), HasSubstr("No such file"));
  EXPECT_THAT(error_of(folder_.write("short.npy", "\x93NUM")), HasSubstr("too short"));
  EXPECT_THAT(error_of(folder_.write("text.npy", "certainly not an array")), HasSubstr("not a .npy file"));
  EXPECT_THAT(error_of(file(shaped("(1, 1)"), 4, 9)), HasSubstr("version 9"));
  EXPECT_THAT(error_of(file("{'descr': '<f8', 'fortran_order': False, 'shape': (1, 1), }", 8)),
              HasSubstr("<f8"));
  EXPECT_THAT(error_of(file("{'descr': '>f4', 'fortran_order': False, 'shape': (1, 1), }", 4)),
              HasSubstr(">f4"));
  EXPECT_THAT(error_of(file("{'descr': '<f4', 'fortran_order': True, 'shape': (1, 1), }", 4)),
              HasSubstr("C order"));
  EXPECT_THAT(error_of(file(shaped("(4,)"), 16)), HasSubstr("two-dimensional"));
  EXPECT_THAT(error_of(file(shaped("(1, 2, 2)"), 16)), HasSubstr("two-dimensional"));
  EXPECT_THAT(error_of(file(shaped("(-1, 2)"), 16)), HasSubstr("two-dimensional"));
}

TEST_F(Npy, AShapeThatDoesNotFitTheFileIsRefused) {
  EXPECT_THAT(error_of(file(shaped("(2, 3)"), 23)), HasSubstr("does not fit"));
  EXPECT_THAT(error_of(file(shaped("(2, 3)"), 28)), HasSubstr("does not fit"));
  // Products that wrap around to the file's size.
  EXPECT_THAT(error_of(file(shaped("(4611686018427387904, 4)"), 0)), HasSubstr("does not fit"));
  EXPECT_THAT(error_of(file(shaped("(9223372036854775809, 2)"), 8)), HasSubstr("does not fit"));
  EXPECT_THAT(error_of(file(shaped("(99999999999999999999999, 1)"), 4)), HasSubstr("does not fit"));
}

TEST_F(Npy, AHeaderLongerThanTheFileIsRefused) {
  std::string text("\x93NUMPY\x02\x00\xff\xff\xff\xff some text", 22);
  EXPECT_THAT(error_of(folder_.write("long.npy", text)), HasSubstr("too long"));
}

TEST_F(Npy, AFailedWriteLeavesTheOldFileAndNothingElse) {
  const std::string path = folder_.write("folder/kept", "old");
  EXPECT_THROW(write_npy(folder_.path("no/such/y.npy"), 1, 1, std::vector<float>(1)), NpyError);
  // The target is a folder: everything succeeds but the renaming.
  EXPECT_THROW(write_npy(folder_.path("folder"), 1, 1, std::vector<float>(1)), NpyError);
  EXPECT_EQ(slipring::tests::read_text(path), "old");
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder_.path(".")), {}), 1);
}

}  // namespace
}  // namespace tp_mlp
