// A store in a directory that all ranks reach under the same path. See store.h for the contract.
//
// The files of a job lie in DIRECTORY/slipring-NONCE, NONCE derived from the job token. Everybody who uses
// them holds a shared lock there: who opens and finds no other holder wipes what a killed job with the same
// token left; who leaves last removes the folder. Needs a file system with flock and rename.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "base/deadline.h"
#include "engine/store/store.h"
#include "slipring/status.h"

namespace slipring::engine {

/// Creates `directory` (mode 0700) if it is not there.
Result<std::shared_ptr<Store>> open_file_store(const std::string& directory, std::string_view job_token,
                                               const base::Deadline& deadline);

}  // namespace slipring::engine
