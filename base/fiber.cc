#include "base/fiber.h"

#include <boost/context/fiber.hpp>
#include <boost/context/protected_fixedsize_stack.hpp>
#include <cassert>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/common_interface_defs.h>
#endif
#if defined(__SANITIZE_THREAD__)
#include <sanitizer/tsan_interface.h>
#endif

namespace slipring::base {
namespace {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr std::size_t kStackBytes = std::size_t{1} << 20;  // their frames are larger
#else
constexpr std::size_t kStackBytes = std::size_t{256} << 10;
#endif

thread_local Fiber* running = nullptr;

// Never inlined: a thread's variable must not be looked up before a switch and used after it, on another thread.
[[gnu::noinline]] Fiber*& running_here() noexcept { return running; }

// A sanitizer has to be told that the stack changes.
class SwitchNotes {
 public:
  SwitchNotes() {
#if defined(__SANITIZE_THREAD__)
    own_ = __tsan_create_fiber(0);
#endif
  }
  ~SwitchNotes() {
#if defined(__SANITIZE_THREAD__)
    __tsan_destroy_fiber(own_);
#endif
  }
  void before_entering(const boost::context::stack_context& stack) noexcept {
#if defined(__SANITIZE_THREAD__)
    resumer_ = __tsan_get_current_fiber();
    __tsan_switch_to_fiber(own_, 0);
#endif
#if defined(__SANITIZE_ADDRESS__)
    __sanitizer_start_switch_fiber(&resumer_fake_stack_, static_cast<char*>(stack.sp) - stack.size, stack.size);
#endif
    (void)stack;
  }
  void after_entering() noexcept {
#if defined(__SANITIZE_ADDRESS__)
    __sanitizer_finish_switch_fiber(own_fake_stack_, &resumer_bottom_, &resumer_bytes_);
#endif
  }
  void before_leaving(bool for_good) noexcept {
#if defined(__SANITIZE_ADDRESS__)
    __sanitizer_start_switch_fiber(for_good ? nullptr : &own_fake_stack_, resumer_bottom_, resumer_bytes_);
#endif
#if defined(__SANITIZE_THREAD__)
    __tsan_switch_to_fiber(resumer_, 0);
#endif
    (void)for_good;
  }
  void after_leaving() noexcept {
#if defined(__SANITIZE_ADDRESS__)
    __sanitizer_finish_switch_fiber(resumer_fake_stack_, nullptr, nullptr);
#endif
  }

 private:
#if defined(__SANITIZE_THREAD__)
  void* own_ = nullptr;
  void* resumer_ = nullptr;
#endif
#if defined(__SANITIZE_ADDRESS__)
  void* own_fake_stack_ = nullptr;
  void* resumer_fake_stack_ = nullptr;
  const void* resumer_bottom_ = nullptr;
  std::size_t resumer_bytes_ = 0;
#endif
};

// Remembers the stack that Boost was given, for the sanitizers.
struct StackOf {
  boost::context::protected_fixedsize_stack allocator{kStackBytes};
  boost::context::stack_context* seen;
  boost::context::stack_context allocate() { return *seen = allocator.allocate(); }
  void deallocate(boost::context::stack_context& stack) noexcept { allocator.deallocate(stack); }
};

}  // namespace

struct Fiber::State {
  boost::context::stack_context stack;
  SwitchNotes notes;
  boost::context::fiber inside;   // where to go on, while suspended
  boost::context::fiber outside;  // who resumed, while running
  Status news;
  bool finished = false;
};

Fiber::Fiber(std::function<void()> body) : state_(std::make_unique<State>()) {
  state_->inside = boost::context::fiber(std::allocator_arg, StackOf{.seen = &state_->stack},
                                         [state = state_.get(), body = std::move(body)](boost::context::fiber&& outside) {
                                           state->notes.after_entering();
                                           state->outside = std::move(outside);
                                           body();
                                           state->finished = true;
                                           state->notes.before_leaving(true);
                                           return std::move(state->outside);
                                         });
}

Fiber::~Fiber() = default;

Fiber* Fiber::current() noexcept { return running_here(); }
bool Fiber::finished() const noexcept { return state_->finished; }

void Fiber::resume(Status news) {
  assert(!state_->finished);
  state_->news = std::move(news);
  Fiber* const outer = running_here();
  running_here() = this;
  state_->notes.before_entering(state_->stack);
  boost::context::fiber inside = std::move(state_->inside).resume();
  state_->notes.after_leaving();
  if (!state_->finished) state_->inside = std::move(inside);
  running_here() = outer;
}

Status Fiber::suspend() {
  state_->notes.before_leaving(false);
  boost::context::fiber outside = std::move(state_->outside).resume();
  state_->notes.after_entering();
  state_->outside = std::move(outside);
  return std::move(state_->news);
}

}  // namespace slipring::base
