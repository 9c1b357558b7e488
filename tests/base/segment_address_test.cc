// Addresses and files that lie: every one is refused with a Status, none is mapped.
#include "base/segment_address.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>
#include <random>
#include <thread>

#include "base/file_descriptor.h"
#include "base/segment.h"
#include "base/segment_state.h"
#include "tests/base/role_process.h"

namespace slipring::base {
namespace {

using tests::hear;
using tests::Role;
using tests::RoleArguments;
using tests::RoleProcess;
using tests::say;

std::shared_ptr<Segment> make_segment(SegmentBacking backing = SegmentBacking::memfd) {
  auto segment = Segment::create({.bytes = 10'000, .backing = backing, .tag = "test"});
  EXPECT_TRUE(segment) << segment.status().to_string();
  std::memset((*segment)->data(), 'p', (*segment)->size());
  return *segment;
}

// arguments: address, seed, rounds. An accepted mutation must have led to the very same segment.
const Role mutator("mutator", [](const RoleArguments& arguments) {
  std::mt19937 random(static_cast<unsigned>(std::stoul(arguments[1])));
  const std::string alphabet = "0123456789abcdef:-mfdsh/. \n\t\xff%";
  int accepted = 0;
  for (int round = std::stoi(arguments[2]); round > 0; --round) {
    std::string text = arguments[0];
    for (unsigned edits = 1 + random() % 3; edits > 0 && !text.empty(); --edits) {
      const std::size_t at = random() % text.size();
      const char letter = alphabet[random() % alphabet.size()];
      switch (random() % 5) {
        case 0:
          text.erase(at, 1 + random() % 4);
          break;
        case 1:
          text.insert(at, 1, letter);
          break;
        case 2:
          text.resize(at);
          break;
        case 3:
          text += text.substr(at);
          break;
        default:
          text[at] = letter;
      }
    }
    const auto segment = Segment::attach(text, Deadline::after_ms(0));
    if (!segment) continue;
    ++accepted;
    if (segment.value()->size() != 10'000 || segment.value()->data()[9'999] != std::byte{'p'}) return 1;
  }
  say("accepted " + std::to_string(accepted));
  return 0;
});

TEST(SegmentAddress, SurvivesTheWayThroughText) {
  const SegmentAddress address{.backing = SegmentBacking::shm,
                               .creator = {.pid = 4194304, .start_ticks = UINT64_MAX},
                               .fd = 1'048'575,
                               .nonce = {1, UINT64_MAX},
                               .bytes = kMaxSegmentBytes};
  const std::string text = address.to_string();
  EXPECT_LE(text.size(), kMaxSegmentAddressChars);
  const auto parsed = SegmentAddress::parse(text);
  ASSERT_TRUE(parsed) << parsed.status().to_string();
  EXPECT_EQ(parsed.value().to_string(), text);
  EXPECT_EQ(parsed.value().shm_path(), "/dev/shm/slipring-0000000000000001ffffffffffffffff");
}

TEST(SegmentAddress, RefusesWhatIsNotAnAddress) {
  const std::string nonce = "0123456789abcdef0123456789abcdef";
  const std::string good = "slipring-segment-1:memfd:12:34:5:" + nonce + ":4096";
  ASSERT_TRUE(SegmentAddress::parse(good));
  for (const std::string& text : std::initializer_list<std::string>{
           std::string(),
           std::string(":"),
           std::string("::::::"),
           std::string(1 << 20, ':'),
           good + ":",
           good + " ",
           " " + good,
           good + std::string(1, '\0'),
           good + std::string(200, '0'),
           "slipring-segment-2:memfd:12:34:5:" + nonce + ":4096",
           "slipring-segment-1:file:12:34:5:" + nonce + ":4096",
           "slipring-segment-1:memfd:0:34:5:" + nonce + ":4096",
           "slipring-segment-1:memfd:-1:34:5:" + nonce + ":4096",
           "slipring-segment-1:memfd:2147483648:34:5:" + nonce + ":4096",
           "slipring-segment-1:memfd:012:34:5:" + nonce + ":4096",
           "slipring-segment-1:memfd:12:34:-5:" + nonce + ":4096",
           "slipring-segment-1:memfd:12:18446744073709551616:5:" + nonce + ":4096",
           "slipring-segment-1:memfd:12:34:5/../6:" + nonce + ":4096",
           "slipring-segment-1:memfd:12:34:5:" + nonce + ":0",
           "slipring-segment-1:memfd:12:34:5:" + nonce + ":70368744177665",
           "slipring-segment-1:memfd:12:34:5:" + nonce + ":0x10",
           "slipring-segment-1:memfd:12:34:5:" + nonce + "0:4096",
           "slipring-segment-1:memfd:12:34:5:0123456789ABCDEF0123456789abcdef:4096",
           "slipring-segment-1:memfd:12:34:5:../../../../etc/passwd/0000000/:4096",
       }) {
    EXPECT_EQ(SegmentAddress::parse(text).status().code(), StatusCode::corrupt) << text.substr(0, 200);
    EXPECT_EQ(Segment::attach(text, Deadline::never()).status().code(), StatusCode::corrupt);
  }
}

TEST(SegmentAddress, ThousandsOfMutationsAreRefusedOrHarmless) {
  const unsigned seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  for (const auto backing : {SegmentBacking::memfd, SegmentBacking::shm}) {
    auto segment = make_segment(backing);
    RoleProcess peer("mutator", {segment->address(), std::to_string(seed), "5000"});
    EXPECT_TRUE(peer.read_line().starts_with("accepted "));
    EXPECT_EQ(peer.wait(), 0);
  }
}

TEST(SegmentAddress, ProcessesAndDescriptorsThatAreNotTheCreatorsAreUnavailable) {
  auto segment = make_segment();
  const SegmentAddress good = SegmentAddress::parse(segment->address()).value();
  const auto refuse = [](SegmentAddress address, std::string_view why) {
    address.nonce[0] ^= 1;  // so that this process's own mapping is not found
    const auto result = Segment::attach(address.to_string(), Deadline::after_ms(0));
    EXPECT_EQ(result.status().code(), StatusCode::unavailable) << result.status().to_string();
    EXPECT_NE(result.status().message().find("ranks do not share memory"), std::string::npos);
    EXPECT_NE(result.status().message().find(why), std::string::npos) << result.status().to_string();
  };
  refuse(good, "another segment");
  auto address = good;
  address.creator.pid = 2'147'483'647;
  refuse(address, "no such process");
  address = good;
  address.creator.start_ticks += 1;
  refuse(address, "another one");
  address = good;
  address.creator = {.pid = ::getppid(), .start_ticks = 0};
  address.fd = 1000;
  refuse(address, "not open");
  address = good;
  address.backing = SegmentBacking::shm;
  refuse(address, "/dev/shm/slipring-");

  int pipe_ends[2];
  ASSERT_EQ(::pipe2(pipe_ends, O_CLOEXEC), 0);
  const FileDescriptor read_end(pipe_ends[0]);
  const FileDescriptor write_end(pipe_ends[1]);
  const FileDescriptor other_memfd(::memfd_create("other", MFD_CLOEXEC));
  const FileDescriptor device(::open("/dev/zero", O_RDWR | O_CLOEXEC));
  for (const int fd : {read_end.get(), other_memfd.get(), device.get()}) {
    address = good;
    address.fd = fd;
    refuse(address, "not a segment");
  }
}

TEST(SegmentAddress, LinksAndFifosInDevShmAreNotFollowed) {
  SegmentAddress address{
      .backing = SegmentBacking::shm, .creator = this_process(), .fd = 0, .nonce = {}, .bytes = 4096};
  std::random_device random;
  address.nonce = {random(), random()};
  const std::string path = address.shm_path();
  ASSERT_EQ(::symlink("/etc/hostname", path.c_str()), 0);
  EXPECT_EQ(Segment::attach(address.to_string(), Deadline::after_ms(0)).status().code(),
            StatusCode::unavailable);
  ::unlink(path.c_str());
  ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
  EXPECT_EQ(Segment::attach(address.to_string(), Deadline::after_ms(0)).status().code(),
            StatusCode::unavailable);
  ::unlink(path.c_str());
}

// A memfd of the right name that the test fills as a creator would, or would not.
class ForgedSegment {
 public:
  ForgedSegment() : model_(make_segment()) {
    address_ = SegmentAddress::parse(model_->address()).value();
    fd_.reset(::memfd_create("slipring", MFD_CLOEXEC | MFD_ALLOW_SEALING));
    std::memcpy(header_.data(), model_->data() - 4096, header_.size());
    address_.fd = fd_.get();
    address_.nonce = {0x1234, 0x5678};
    put(offsetof(SegmentHeader, nonce), address_.nonce);
  }
  template <class T>
  void put(std::size_t offset, T value) {
    std::memcpy(header_.data() + offset, &value, sizeof(value));
  }
  void resize(std::size_t bytes) const { ASSERT_EQ(::ftruncate(fd_.get(), static_cast<off_t>(bytes)), 0); }
  void seal() const { ASSERT_EQ(::fcntl(fd_.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW), 0); }
  void write_header() const {
    ASSERT_EQ(::pwrite(fd_.get(), header_.data(), header_.size(), 0), static_cast<ssize_t>(header_.size()));
  }
  std::string address() const { return address_.to_string(); }
  StatusCode attach(std::int64_t wait_ms = 0) const {
    return Segment::attach(address(), Deadline::after_ms(wait_ms)).status().code();
  }
  static constexpr std::size_t kFileBytes = 4096 + 3 * 4096;

 private:
  std::shared_ptr<Segment> model_;
  SegmentAddress address_;
  FileDescriptor fd_;
  std::array<char, 4096> header_{};
};

TEST(SegmentAttach, WaitsForACreatorThatIsNotReady) {
  const ForgedSegment late;
  EXPECT_EQ(late.attach(20), StatusCode::timeout);
  std::thread creator([&late] {
    const auto pause = [] { std::this_thread::sleep_for(std::chrono::milliseconds(30)); };
    pause();
    late.resize(ForgedSegment::kFileBytes);
    pause();
    late.seal();
    pause();
    late.write_header();
  });
  const auto attached = Segment::attach(late.address(), Deadline::after_ms(30'000));
  creator.join();
  EXPECT_TRUE(attached) << attached.status().to_string();
}

TEST(SegmentAttach, GivesUpWhenTheCreatorStaysUnready) {
  const ForgedSegment empty;
  const auto result = Segment::attach(empty.address(), Deadline::after_ms(10));
  EXPECT_EQ(result.status().code(), StatusCode::timeout);
  EXPECT_NE(result.status().message().find("process " + std::to_string(::getpid())), std::string::npos);
  empty.resize(ForgedSegment::kFileBytes);
  empty.seal();
  EXPECT_EQ(empty.attach(10), StatusCode::timeout);
  const ForgedSegment can_shrink;
  can_shrink.resize(ForgedSegment::kFileBytes);
  can_shrink.write_header();
  EXPECT_EQ(can_shrink.attach(10), StatusCode::timeout);
}

TEST(SegmentAttach, RefusesHeadersThatLie) {
  const auto outcome = [](auto change, std::size_t file_bytes = ForgedSegment::kFileBytes) {
    ForgedSegment forged;
    change(forged);
    forged.resize(file_bytes);
    forged.seal();
    forged.write_header();
    return forged.attach();
  };
  EXPECT_EQ(outcome([](ForgedSegment&) {}), StatusCode::ok);
  EXPECT_EQ(outcome([](ForgedSegment& f) { f.put(0, 'X'); }), StatusCode::corrupt);
  EXPECT_EQ(outcome([](ForgedSegment&) {}, 4096), StatusCode::corrupt);
  EXPECT_EQ(outcome([](ForgedSegment&) {}, 4 * ForgedSegment::kFileBytes), StatusCode::corrupt);
  for (const std::uint64_t lie : {0ULL, 1ULL, 4095ULL, 8192ULL, 1ULL << 40, ~0ULL, ~0ULL - 4095}) {
    EXPECT_EQ(outcome([lie](ForgedSegment& f) { f.put(offsetof(SegmentHeader, header_bytes), lie); }),
              StatusCode::corrupt)
        << lie;
    EXPECT_EQ(outcome([lie](ForgedSegment& f) { f.put(offsetof(SegmentHeader, user_bytes), lie); }),
              StatusCode::corrupt)
        << lie;
  }
}

TEST(SegmentAttach, ClampsTheReservedBytesThatACreatorClaims) {
  ForgedSegment forged;
  forged.put(offsetof(SegmentHeader, reserved_bytes), std::uint64_t{1} << 60);
  forged.resize(ForgedSegment::kFileBytes);
  forged.seal();
  forged.write_header();
  auto attached = Segment::attach(forged.address(), Deadline::after_ms(0));
  ASSERT_TRUE(attached) << attached.status().to_string();
  EXPECT_EQ((*attached)->reserved_bytes(), (*attached)->size());
}

}  // namespace
}  // namespace slipring::base
