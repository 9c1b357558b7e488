#include "tools/perf/options.h"

#include <gmock/gmock.h>

namespace slipring::tools::perf {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::internal::CaptureStderr;
using testing::internal::CaptureStdout;
using testing::internal::GetCapturedStderr;
using testing::internal::GetCapturedStdout;

std::variant<Options, EarlyExit> parse(std::vector<const char*> words) {
  words.insert(words.begin(), "slipring-perf");
  return parse_options(static_cast<int>(words.size()), words.data());
}

/// What the refused command line prints.
std::string refusal(const std::vector<const char*>& words) {
  CaptureStderr();
  const auto parsed = parse(words);
  const std::string text = GetCapturedStderr();
  const auto* exit = std::get_if<EarlyExit>(&parsed);
  EXPECT_TRUE(exit && exit->status == 2) << text;
  return text;
}

TEST(PerfOptions, LongAndShortFormsSayTheSame) {
  for (const std::vector<const char*>& words :
       {std::vector<const char*>{"all_reduce", "--threads", "3",   "--min-bytes", "1K",  "--max-bytes",
                                 "2M",         "--factor",  "8",   "--iters",     "50",  "--warmup",
                                 "7",          "--dtype",   "i64", "--redop",     "max", "--algo",
                                 "ring",       "--check",   "0"},
        std::vector<const char*>{"all_reduce", "--threads=3", "-b1K", "-e", "2M", "-f", "8", "-n", "50", "-w",
                                 "7", "-d", "i64", "-o", "max", "-a", "ring", "-c", "0"}}) {
    const auto parsed = parse(words);
    ASSERT_TRUE(std::holds_alternative<Options>(parsed));
    const Options& options = std::get<Options>(parsed);
    EXPECT_EQ(options.operation->name, "all_reduce");
    EXPECT_EQ(options.threads, 3);
    EXPECT_EQ(options.min_bytes, 1024U);
    EXPECT_EQ(options.max_bytes, std::size_t{2} << 20);
    EXPECT_EQ(options.factor, 8U);
    EXPECT_EQ(options.iters, 50);
    EXPECT_EQ(options.warmup, 7);
    EXPECT_EQ(options.dtype, DType::i64);
    EXPECT_EQ(options.redop, ReduceOp::max);
    EXPECT_EQ(options.algorithm, "ring");
    EXPECT_FALSE(options.check);
  }
}

TEST(PerfOptions, ChecksAndPinsByDefault) {
  const auto parsed = parse({"stream"});
  ASSERT_TRUE(std::holds_alternative<Options>(parsed));
  EXPECT_TRUE(std::get<Options>(parsed).check);
  EXPECT_EQ(std::get<Options>(parsed).pin.kind, PinRequest::Kind::one_per_core);
}

TEST(PerfOptions, WhatMovesDataTakesEveryType) {
  for (int t = 0; t < kDTypeCount; ++t) {
    const std::string name(dtype_name(static_cast<DType>(t)));
    const auto parsed = parse({"broadcast", "-d", name.c_str()});
    ASSERT_TRUE(std::holds_alternative<Options>(parsed)) << name;
    EXPECT_EQ(std::get<Options>(parsed).dtype, static_cast<DType>(t));
  }
}

TEST(PerfOptions, EveryOperationIsInTheHelp) {
  CaptureStdout();
  const auto parsed = parse({"--help"});
  const std::string text = GetCapturedStdout();
  ASSERT_TRUE(std::holds_alternative<EarlyExit>(parsed));
  EXPECT_EQ(std::get<EarlyExit>(parsed).status, 0);
  for (const OperationInfo* info : operations()) EXPECT_THAT(text, HasSubstr(std::string(info->name)));
}

TEST(PerfOptions, WrongCommandLinesSayWhy) {
  EXPECT_THAT(refusal({}), HasSubstr("OP"));
  EXPECT_THAT(refusal({"all_scatter"}), HasSubstr("no operation all_scatter"));
  EXPECT_THAT(refusal({"all_reduce", "-b", "4X"}), HasSubstr("--min-bytes"));
  EXPECT_THAT(refusal({"all_reduce", "-b", "8M", "-e", "1M"}), HasSubstr("--min-bytes 8388608 is above"));
  EXPECT_THAT(refusal({"all_reduce", "-d", "f99"}),
              HasSubstr("--dtype: f99 is not one of f32 f64 i32 i64 i8 u8 u32 u64 f16 bf16 bool fp8_e4m3"));
  EXPECT_THAT(refusal({"all_reduce", "-o", "mean"}),
              HasSubstr("--redop: mean is not one of sum prod min max avg"));
  EXPECT_THAT(refusal({"all_reduce", "-d", "bool"}),
              HasSubstr("bool is carried but not reduced; --dtype of "
                        "all_reduce is one of f32 f64 i32 i64 i8 u8 u32 u64 f16 bf16\n"));
  EXPECT_THAT(refusal({"all_reduce", "--procs", "0"}), HasSubstr("--procs"));
  EXPECT_THAT(refusal({"all_reduce", "--procs", "2", "--threads", "2"}), HasSubstr("excludes"));
  EXPECT_THAT(refusal({"all_reduce", "-f", "1"}), HasSubstr("--factor"));
  EXPECT_THAT(refusal({"all_reduce", "--pin", "zero"}), HasSubstr("zero is neither"));
  EXPECT_THAT(refusal({"send_recv", "-a", "ring"}), HasSubstr("send_recv has no algorithms"));
  EXPECT_THAT(refusal({"broadcast", "--out-of-place"}), HasSubstr("broadcast has no --out-of-place"));
  EXPECT_THAT(refusal({"all_reduce", "--in-place"}), HasSubstr("all_reduce has no --in-place"));
  EXPECT_THAT(refusal({"all_reduce", "--json", "-", "--csv", "-"}), HasSubstr("cannot share"));
}

TEST(PerfOptions, RanksGetTheSameCommandLineWithoutProcs) {
  const char* words[] = {"slipring-perf", "all_reduce", "--procs", "2", "-b", "4",
                         "--procs=2",     "--json",     "-"};
  EXPECT_THAT(rank_arguments(9, words), ElementsAre("all_reduce", "-b", "4", "--json", "-"));
}

}  // namespace
}  // namespace slipring::tools::perf
