#include "tools/perf/bench.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <fstream>
#include <map>

#include "tools/host_facts.h"
#include "tools/perf/byte_size.h"
#include "tools/perf/gather.h"
#include "tools/perf/measure.h"
#include "tools/perf/report.h"

namespace slipring::tools::perf {
namespace {

void expect(Status status) {
  if (!status) throw Error(std::move(status));
}

std::string governor() {
  std::ifstream file("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor");
  std::string name;
  return std::getline(file, name) ? name : "none to be seen";
}

using AffinityText = std::array<char, 40>;

/// "rank 0 CPU 0, rank 1 CPU 1"; many ranks that may run on the same CPUs are named once.
std::string affinity_of_ranks(const std::vector<AffinityText>& texts) {
  std::map<std::string, std::vector<int>> ranks_of;
  for (std::size_t rank = 0; rank < texts.size(); ++rank)
    ranks_of[texts[rank].data()].push_back(static_cast<int>(rank));
  std::string line;
  for (const auto& [text, ranks] : ranks_of) {
    if (!line.empty()) line += ", ";
    line += fmt::format("rank{} {} {}", ranks.size() > 1 ? "s" : "", fmt::join(ranks, " "), text);
  }
  return line;
}

std::string fact(const std::vector<Fact>& facts, std::string_view name) {
  for (const auto& [what, found] : facts) {
    if (what == name) return found;
  }
  return "unknown";
}

std::vector<Fact> header_facts(const Communicator& comm, const Options& options,
                               const std::vector<AffinityText>& affinities, std::size_t cpus) {
  const std::vector<Fact> host = host_facts();
  const std::string form = options.operation->has_out_of_place_form
                               ? (options.out_of_place ? ", out of place" : ", in place")
                           : options.in_place ? ", in place"
                                              : "";
  const auto local_size = static_cast<std::size_t>(comm.local_size());
  return {
      {"slipring-perf", SLIPRING_VERSION},
      {"operation", fmt::format("{}{}, buffers {}, check {}", options.operation->name, form,
                                options.heap ? "heap" : "private", options.check ? "every element" : "off")},
      {"ranks", fmt::format("{} {} on {} node(s){}", comm.size(), options.threads > 0 ? "threads" : "processes", comm.nodes(),
                            options.groups > 1 ? fmt::format(", in {} groups at the same time", options.groups) : "")},
      {"ranks per core", fmt::format("{:.4g}", cpus ? static_cast<double>(local_size) /
                                                          static_cast<double>(std::min(cpus, local_size))
                                                    : 0.0)},
      {"affinity", affinity_of_ranks(affinities)},
      {"host", fact(host, "host")},
      {"cpu", fact(host, "cpu")},
      {"governor", governor()},
  };
}

/// What has become resident on this rank since before it joined, without its user buffers.
ResidentMemory overhead(const Options& options, const ResidentMemory& before_join, std::size_t buffer_bytes,
                        int size) {
  const ResidentMemory now = resident_memory();
  const std::int64_t ranks_here = options.threads > 0 ? size : 1;  // threads share one process
  ResidentMemory mine{(now.private_bytes - before_join.private_bytes) / ranks_here,
                      (now.segment_bytes - before_join.segment_bytes) / ranks_here};
  (options.heap ? mine.segment_bytes : mine.private_bytes) -= static_cast<std::int64_t>(buffer_bytes);
  return mine;
}

std::string memory_text(const std::vector<ResidentMemory>& overheads) {
  // The mean: of a heap buffer that a peer has read too, part is counted there.
  std::int64_t private_bytes = 0, segment_bytes = 0;
  for (const ResidentMemory& overhead : overheads) {
    private_bytes += overhead.private_bytes;
    segment_bytes += overhead.segment_bytes;
  }
  const auto per_rank = [&](std::int64_t bytes) {
    return readable_bytes(static_cast<std::uint64_t>(std::max<std::int64_t>(0, bytes)) / overheads.size());
  };
  return fmt::format("{} resident per rank beside program and user buffers: {} private, {} in segments",
                     per_rank(private_bytes + segment_bytes), per_rank(private_bytes),
                     per_rank(segment_bytes));
}

Row make_row(const Communicator& comm, const Options& options, std::size_t bytes,
             const Measurement& measured) {
  const OperationInfo& info = *options.operation;
  // Messages take the transport of the ranks' channels, as a barrier does; there is no algorithm to choose.
  Selection selection = comm.explain(info.is_collective ? std::string(info.name) : "barrier", bytes);
  if (!info.is_collective) selection.algorithm = "channel";
  Row row;
  row.op = info.name;
  row.bytes = bytes;
  row.count = bytes / dtype_bytes(options.dtype);
  row.dtype = info.has_size ? dtype_name(options.dtype) : "none";
  row.redop = info.reduces ? reduce_op_name(options.redop) : "none";
  row.root = info.rooted ? options.root : -1;
  row.ranks = comm.size();
  row.nodes = comm.nodes();
  row.algo = selection.algorithm;
  row.transport = selection.transport;
  row.time_us = measured.time_us;
  row.algbw_gbps = static_cast<double>(bytes) / 1e3 / measured.time_us.median;
  row.busbw_gbps = row.algbw_gbps * info.bus_factor(comm.size());
  row.wrong = measured.wrong;
  row.checked = options.check;
  row.in_place = info.has_out_of_place_form ? !options.out_of_place : options.in_place;
  row.buffers = options.heap ? "heap" : "private";
  row.samples = measured.samples;
  row.batch = measured.batch;
  row.groups = options.groups;
  row.inflight = options.inflight;
  return row;
}

void require_ranks(const Communicator& comm, const Options& options) {
  const OperationInfo& info = *options.operation;
  if (comm.size() % options.groups != 0) {
    throw Error(Status(StatusCode::invalid_argument,
                       fmt::format("--groups {} does not divide the {} ranks", options.groups, comm.size())));
  }
  const int ranks = comm.size() / options.groups;
  if (ranks < info.min_ranks) {
    throw Error(Status(StatusCode::invalid_argument,
                       fmt::format("{} needs {} ranks, not {}", info.name, info.min_ranks, ranks)));
  }
  if (info.rooted && options.root >= ranks) {
    throw Error(Status(StatusCode::invalid_argument,
                       fmt::format("root {} is not among the {} ranks", options.root, ranks)));
  }
}

}  // namespace

int run_bench(Communicator& comm, const Options& options, const ResidentMemory& before_join) {
  require_ranks(comm, options);
  const std::size_t cpus = usable_cpus().size();
  expect(pin_rank(options.pin, comm.local_rank(), comm.local_size()));
  AffinityText affinity{};
  affinity_text().copy(affinity.data(), affinity.size() - 1);
  const std::vector<AffinityText> affinities = gather(comm, affinity);

  Result<Report> report = comm.rank() == 0 ? Report::open(options.json, options.csv) : Report::open("", "");
  if (!report) throw Error(report.status());
  if (comm.rank() == 0) report->header(header_facts(comm, options, affinities, cpus));

  std::uint64_t wrong = 0;
  Communicator split = options.groups > 1 ? comm.split(comm.rank() % options.groups) : Communicator();
  Communicator& group = options.groups > 1 ? split : comm;
  const std::size_t unit = dtype_bytes(options.dtype) * static_cast<std::size_t>(options.operation->in_blocks ? group.size() : 1);
  const std::vector<std::size_t> sizes = options.operation->has_size
                                             ? sweep(options.min_bytes, options.max_bytes, options.factor, unit)
                                             : std::vector<std::size_t>{0};
  Options sized = options;
  sized.max_bytes = sizes.back();  // buffers no larger than what is visited
  const std::unique_ptr<Operation> operation = options.operation->make(group, sized);
  for (const std::size_t bytes : sizes) {
    const Measurement measured = measure(comm, *operation, options, bytes / dtype_bytes(options.dtype));
    wrong += measured.wrong;
    if (comm.rank() == 0) report->row(make_row(group, options, bytes, measured));
  }

  const auto overheads = gather(comm, overhead(options, before_join, operation->buffer_bytes(), comm.size()));
  comm.barrier();  // rank 0 decides the exit status; nobody leaves before the last message has arrived
  if (comm.rank() != 0) return 0;
  report->closing({{"memory", memory_text(overheads)},
                   {"wrong", options.check ? fmt::format("{} elements", wrong) : "not checked"}});
  expect(report->finish());
  return wrong == 0 ? 0 : 1;
}

}  // namespace slipring::tools::perf
