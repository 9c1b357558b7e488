// Runs a test body once per instruction set that was compiled and that this CPU has.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "collectives/reduce_kernels.h"
#include "hwy/highway.h"

namespace slipring::collectives {

template <class Body>
void for_each_target(Body&& body) {
  hwy::SetSupportedTargetsForTest(0);
  const std::vector<std::int64_t> targets = hwy::SupportedAndGeneratedTargets();
  ASSERT_FALSE(targets.empty());
  for (const std::int64_t target : targets) {
    hwy::SetSupportedTargetsForTest(target);
    hwy::GetChosenTarget().Update(hwy::SupportedTargets());
    ASSERT_STREQ(reduce_kernel_target(), hwy::TargetName(target));
    SCOPED_TRACE(std::string("target ") + hwy::TargetName(target));
    body();
    if (testing::Test::HasFatalFailure()) break;
  }
  hwy::SetSupportedTargetsForTest(0);
  hwy::GetChosenTarget().Update(hwy::SupportedTargets());
}

}  // namespace slipring::collectives
