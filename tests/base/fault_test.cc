#include "base/fault.h"

#include <gtest/gtest.h>

namespace slipring::base {
namespace {

TEST(FaultPoint, strikes_the_named_rank_at_the_named_operation_and_chunk) {
  const FaultPoint fault = FaultPoint::parse("exit rank 2 op 7 chunk 3", 2, 1000).value();
  fault.at(1007, 2);
  fault.at(1006, 3);
  EXPECT_EXIT(fault.at(1007, 3), testing::ExitedWithCode(3), "");
  EXPECT_EXIT(FaultPoint::parse("kill rank 0 op 1", 0, 0).value().at(1, 0), testing::KilledBySignal(9), "");
}

TEST(FaultPoint, leaves_other_ranks_alone) {
  FaultPoint::parse("kill rank 2 op 7", 1, 0).value().at(7, 0);
  FaultPoint::parse("", 1, 0).value().at(7, 0);
}

TEST(FaultPoint, says_what_form_is_wanted) {
  for (const char* text : {"maim rank 1 op 2", "kill rank one op 2", "kill op 2 rank 1", "kill rank 1", "kill rank 1 op 2 piece 3",
                           "kill rank 1 op 2 chunk", "kill rank 1 op 2 ", "kill rank 1 op -2", "kill rank 1 op 2 chunk 3 twice"}) {
    const auto fault = FaultPoint::parse(text, 1, 0);
    ASSERT_FALSE(fault.is_ok()) << text;
    EXPECT_EQ(fault.status().code(), StatusCode::invalid_argument);
    EXPECT_NE(fault.status().message().find("kill|exit|stop rank R op K [chunk J]"), std::string::npos);
  }
}

}  // namespace
}  // namespace slipring::base
