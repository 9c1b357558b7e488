// Places where a store can be: each opens any number of handles on one store, as the ranks of a job would.
#pragma once

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <memory>
#include <string>

#include "base/deadline.h"
#include "engine/store/store.h"
#include "engine/store/tcp_store_server.h"

namespace slipring::engine {

// Bounds every wait of a test that is expected to succeed; generous, so that a loaded machine does not fail
// it.
inline base::Deadline patience() {
  return base::Deadline::after(std::chrono::seconds(60));
}

class TemporaryDirectory {
 public:
  TemporaryDirectory() {
    std::string path = "/tmp/slipring-store-test-XXXXXX";
    if (mkdtemp(path.data()) == nullptr) ADD_FAILURE() << "mkdtemp " << path;
    path_ = path;
  }
  ~TemporaryDirectory() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TemporaryDirectory(const TemporaryDirectory&) = delete;
  TemporaryDirectory& operator=(const TemporaryDirectory&) = delete;
  const std::string& path() const { return path_; }
  bool is_empty() const { return std::filesystem::is_empty(path_); }

 private:
  std::string path_;
};

class StorePlace {
 public:
  virtual ~StorePlace() = default;
  virtual std::shared_ptr<Store> open() = 0;
};

class MemoryPlace final : public StorePlace {
 public:
  std::shared_ptr<Store> open() override { return store_; }

 private:
  std::shared_ptr<Store> store_ = make_memory_store();
};

class UrlPlace : public StorePlace {
 public:
  std::shared_ptr<Store> open() override {
    Result<std::shared_ptr<Store>> store = open_store(url_, token_, patience());
    EXPECT_TRUE(store) << store.status().to_string();
    return store ? *store : nullptr;
  }

 protected:
  std::string url_;
  std::string token_ = "the token of this test";
};

class FilePlace final : public UrlPlace {
 public:
  FilePlace() {
    url_ = "file://" + directory_.path();
    anchor_ = open();
  }

 private:
  TemporaryDirectory directory_;
  // The last handle takes the contents with it, and a test's threads may come and go one after the other.
  std::shared_ptr<Store> anchor_;
};

class TcpPlace final : public UrlPlace {
 public:
  TcpPlace() {
    TcpStoreServerOptions options;
    options.job_token = token_;
    Result<std::unique_ptr<TcpStoreServer>> server = TcpStoreServer::start(std::move(options));
    EXPECT_TRUE(server) << server.status().to_string();
    server_ = std::move(*server);
    url_ = server_->url();
  }

 private:
  std::unique_ptr<TcpStoreServer> server_;
};

inline std::unique_ptr<StorePlace> make_place(const std::string& kind) {
  if (kind == "memory") return std::make_unique<MemoryPlace>();
  if (kind == "file") return std::make_unique<FilePlace>();
  return std::make_unique<TcpPlace>();
}

}  // namespace slipring::engine
