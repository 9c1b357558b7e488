// Control path: how a rank finds the others and becomes a communicator.
#include "base/log.h"
#include "base/status.h"
#include "engine/communicator_impl.h"
#include "engine/unique_id.h"

namespace slipring::engine {

CommunicatorImpl::CommunicatorImpl(std::shared_ptr<SharedGroup> group, const base::ConfigValues& config,
                                   const base::FaultPoint& fault)
    : group_(std::move(group)), size_(group_->ranks()), config_(config), fault_(fault),
      waiter_(group_->doorbell(group_->rank()), group_->windows(), *group_),
      direct_(group_->direct_group(), waiter_, fault_),
      split_(split_by_domains(group_->rank(), group_->domains())),
      selector_(config_, group_->ranks(), group_->layout().direct.box_bytes, split_ ? split_->domain_count : 1,
                group_->job()->tuning), channels_(group_, waiter_),
      counters_(config_.counters_enabled ? group_->counters() : private_counters_) {
  waiter_.show_counts_in(counters_);
  send_.resize(static_cast<std::size_t>(size_));
  recv_.resize(send_.size());
}

CommunicatorImpl::~CommunicatorImpl() { close(); }

Result<std::shared_ptr<CommunicatorImpl>> CommunicatorImpl::join(const JobOptions& options) {
  auto config = base::Config::load(options.config);
  if (!config) return std::move(config).status();
  if (Status s = base::configure_log(*config); !s) return s;
  JobOptions named = options;
  std::string group = "world";
  if (UniqueId::is_one(options.store)) {
    auto id = UniqueId::parse(options.store);
    if (!id) return std::move(id).status();
    group = id->meeting;
    named.store = id->store_url;
    named.job_token = id->job_token;
  }
  auto where = rank_environment(named);
  if (!where) return std::move(where).status();
  base::set_log_rank_of_process(where->rank);
  const base::Deadline deadline = base::Deadline::after_ms(config->values().startup_timeout_ms);
  SLIPRING_LOG(info, startup, "rank {} of {} by {}, store {}", where->rank, where->size, where->source, where->store_url);
  std::shared_ptr<Store> store;
  if (where->size == 1) {
    store = make_memory_store();
  } else {
    auto opened = open_store(where->store_url, where->job_token, deadline);
    if (!opened) return std::move(opened).status().with(fmt::format("rank {} of {} joining", where->rank, where->size));
    store = *opened;
  }
  return join_at(*store, where->rank, where->size, *config, deadline, group);
}

Result<std::shared_ptr<CommunicatorImpl>> CommunicatorImpl::join_at(Store& store, int rank, int size, const base::Config& config,
                                                                    const base::Deadline& deadline, std::string_view meeting) {
  auto fault = base::FaultPoint::parse(config.values().test_fault, rank,
                                       static_cast<std::uint64_t>(config.values().test_counter_start));
  if (!fault) return std::move(fault).status();
  auto group = SharedGroup::form(store, meeting, rank, size, config.values(), deadline);
  if (!group) return std::move(group).status().with(fmt::format("rank {} of {} joining at {}", rank, size, store.url()));
  return std::make_shared<CommunicatorImpl>(*group, config.values(), *fault);
}

void CommunicatorImpl::close() noexcept {
  if (closed_) return;
  closed_ = true;
  if (generation_ != base::fork_generation()) {  // the parent's communicator, not this process's
    (void)lanes_.release();                       // nor its fibers and thread
    return;
  }
  if (lanes_) lanes_->close();
  usable_ = false;
  if (failure_.is_ok() && size() > 1) direct_.leave();
  group_->leave();
  channels_.close();
  if (inside_) inside_->close();
  if (across_) across_->close();
  executors_.clear();
}

Status CommunicatorImpl::abort(std::string_view reason) noexcept {
  return group_->poison(base::error(StatusCode::aborted, "rank {} aborted: {}", rank(), reason));
}

}  // namespace slipring::engine
