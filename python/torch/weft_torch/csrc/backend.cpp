// SPDX-License-Identifier: BSD-3-Clause
// Operations of the back end; see backend.hpp.  Data that is only moved goes as bytes, so every
// dtype of torch can be moved.  Lists of tensors go through one flat tensor.
#include "backend.hpp"

#include "world.hpp"

#include <algorithm>
#include <numeric>

namespace weft {
namespace {

using c10d::OpType;

constexpr size_t kVerdict = 256;
// Rank 0 says after its own timeout who is missing; this long after, the others no longer wait.
constexpr Milliseconds kVerdictLate(2000);

void check_tensor(const at::Tensor& t) {
  TORCH_CHECK(t.device().is_cpu() || t.device().is_cuda(),
              "weft: moves CPU and CUDA tensors, and this one is on ", t.device());
  TORCH_CHECK(t.layout() == at::kStrided,
              "weft: tensors must be dense here; all_reduce alone takes sparse ones");
  TORCH_CHECK(t.is_contiguous(), "weft: tensors must be contiguous");
}

const at::Tensor& only(const Tensors& tensors, const char* call) {
  TORCH_CHECK(tensors.size() == 1, "weft: ", call, " takes one tensor, found ", tensors.size());
  check_tensor(tensors[0]);
  return tensors[0];
}

void check_alike(const at::Tensor& a, const at::Tensor& b) {
  TORCH_CHECK(a.device() == b.device(), "weft: tensors are on ", a.device(), " and ", b.device());
  TORCH_CHECK(a.scalar_type() == b.scalar_type(), "weft: tensors have dtypes ", a.scalar_type(),
              " and ", b.scalar_type());
}

MPI_Count bytes(const at::Tensor& t) { return static_cast<MPI_Count>(t.nbytes()); }

// Data that is moved: as bytes, or as words if int has no number for so many bytes.
struct Moved {
  explicit Moved(const at::Tensor& t)
      : wide(t.nbytes() > INT_MAX && t.nbytes() % 8 == 0),
        n(bytes(t) / (wide ? 8 : 1)),
        type(wide ? MPI_UINT64_T : MPI_BYTE) {}
  bool wide;
  MPI_Count n;
  MPI_Datatype type;
};

int64_t total(const Tensors& list) {
  return std::accumulate(list.begin(), list.end(), int64_t{0},
                         [](int64_t n, const at::Tensor& t) { return n + t.numel(); });
}

void check_list(const Tensors& list, int size, const at::Tensor& like, const char* what) {
  TORCH_CHECK(static_cast<int>(list.size()) == size, "weft: the list of ", what, " has ",
              list.size(), " tensors, expected one for each of ", size, " ranks");
  for (auto& t : list) {
    check_tensor(t);
    check_alike(t, like);
  }
}

at::Tensor flat_like(const Tensors& list) { return at::empty({total(list)}, list[0].options()); }

at::Tensor flatten(const Tensors& list) {
  at::Tensor flat = flat_like(list);
  int64_t at = 0;
  for (auto& t : list) {
    flat.narrow(0, at, t.numel()).copy_(t.reshape({-1}));
    at += t.numel();
  }
  return flat;
}

void unflatten(const at::Tensor& flat, const Tensors& list) {
  int64_t at = 0;
  for (auto& t : list) {
    t.view({-1}).copy_(flat.narrow(0, at, t.numel()));
    at += t.numel();
  }
}

// Counts and displacements of consecutive blocks, in bytes.
}  // namespace

struct Blocks {
  Blocks() = default;
  Blocks(int size, MPI_Count each) {
    while (size--)
      add(each);
  }
  std::vector<MPI_Count> counts;
  std::vector<MPI_Aint> displs;
  std::vector<int> narrow_counts() const { return narrow(counts); }
  std::vector<int> narrow_displs() const { return narrow({displs.begin(), displs.end()}); }
  void add(MPI_Count n) {
    displs.push_back(counts.empty() ? 0 : displs.back() + static_cast<MPI_Aint>(counts.back()));
    counts.push_back(n);
  }
};

namespace {

Blocks blocks_of(const Tensors& list) {
  Blocks b;
  for (auto& t : list)
    b.add(bytes(t));
  return b;
}

// Rows of dimension 0 for each rank; none given: equal parts.
Blocks blocks_of(const at::Tensor& t, const std::vector<int64_t>& rows, int size,
                 const char* what) {
  int64_t all = t.dim() ? t.size(0) : 0;
  int64_t row = all ? static_cast<int64_t>(t.nbytes()) / all : 0;
  Blocks b;
  if (rows.empty()) {
    TORCH_CHECK(all % size == 0, "weft: dimension 0 of the ", what, ", ", all,
                ", is not a multiple of ", size, " ranks");
  } else {
    TORCH_CHECK(static_cast<int>(rows.size()) == size, "weft: ", rows.size(),
                " split sizes of the ", what, ", expected ", size);
    TORCH_CHECK(std::accumulate(rows.begin(), rows.end(), int64_t{0}) == all,
                "weft: the split sizes of the ", what, " do not add up to its dimension 0, ", all);
  }
  for (int r = 0; r < size; r++)
    b.add(row * (rows.empty() ? all / size : rows[r]));
  return b;
}

// What a sum still needs.
void finish_reduction(const Start& s, const Reduction& r, at::Tensor t, int size) {
  if (!r.average)
    return;
  s->after.push_back([t, size]() mutable {
    if (at::isIntegralType(t.scalar_type(), false))
      t.div_(size, "trunc");
    else
      t.div_(size);
  });
}

at::Tensor scaled(const Reduction& r, const at::Tensor& t) {
  return r.factor.defined() ? t.mul(r.factor.to(t.scalar_type())) : t;
}

}  // namespace

// ---- the group ----

WeftBackend::WeftBackend(int rank, int size, std::vector<int64_t> ranks, const std::string& name,
                         Milliseconds timeout)
    : Backend(rank, size),
      ranks_(std::move(ranks)),
      options_(c10::make_intrusive<Options>("weft", timeout)),
      group_(std::make_shared<Group>()) {
  int* max = nullptr;
  int found = 0, mine = -1;
  options_->group_name = group_->name = name;
  group_->rank = rank;
  group_->size = size;
  std::string tag = world_tag(ranks_);
  group_->store = world_store(tag);
  Task creation;
  creation.group = group_;
  creation.call = "creation of the communicator";
  if (!world_comm(ranks_, tag, timeout, &comm_))
    creation.fail_late(timeout);
  MPI_Comm_rank(comm_, &mine);
  TORCH_CHECK(mine == rank, "weft: group ", name, " has rank ", mine, " here, and torch ", rank);
  MPI_Comm_get_attr(comm_, MPI_TAG_UB, &max, &found);
  tag_max_ = found ? *max : 32767;
}

WeftBackend::~WeftBackend() { shutdown(); }

void WeftBackend::shutdown() {
  if (comm_ != MPI_COMM_NULL && !world_spoilt() && !group_->aborted) {
    for (auto& [device, lane] : lanes_)
      lane->close();
    for (auto& [key, pair] : pairs_) {
      pair.up->close();
      pair.down->close();
      world_free(&pair.comm);
    }
    world_free(&comm_);
  }
  lanes_.clear();
  pairs_.clear();
  comm_ = MPI_COMM_NULL;
}

void WeftBackend::abort() {
  group_->aborted = true;
  watch_abort();
}

c10::intrusive_ptr<c10d::Backend> WeftBackend::split(const c10::intrusive_ptr<c10d::Store>&,
                                                     const std::vector<int>& ranks,
                                                     const c10::intrusive_ptr<Options>& opts) {
  auto mine = std::find(ranks.begin(), ranks.end(), rank_);
  std::vector<int64_t> of_world;
  if (mine == ranks.end())
    return nullptr;
  for (int r : ranks) {
    check_rank(r, "a member of the new group");
    of_world.push_back(ranks_.empty() ? r : ranks_[r]);
  }
  return c10::make_intrusive<WeftBackend>(static_cast<int>(mine - ranks.begin()),
                                          static_cast<int>(ranks.size()), std::move(of_world),
                                          opts->group_name, opts->timeout);
}

void WeftBackend::check_rank(int64_t rank, const char* what) const {
  TORCH_CHECK(rank >= 0 && rank < size_, "weft: ", what, " is rank ", rank, ", outside 0..",
              size_ - 1);
}

int WeftBackend::check_tag(int tag) const {
  TORCH_CHECK(tag >= 0 && tag < tag_max_, "weft: tag ", tag, " is outside 0..", tag_max_ - 1);
  return tag;
}

Start WeftBackend::begin(const char* call, const at::Tensor& data, Milliseconds timeout) {
  TORCH_CHECK(comm_ != MPI_COMM_NULL && !group_->aborted, "weft: ", call, " on group ",
              group_->name, ", which was ", group_->aborted ? "aborted" : "destroyed");
  Start s{coalescing_ ? coalesced_ : std::make_shared<Task>(), nullptr, nullptr};
  s->timeout = timeout.count() > 0 ? timeout : options_->timeout;
  s->group = group_;
  s->call = data.defined() ? c10::str(call, " of ", data.nbytes(), " bytes") : call;
  if (data.defined() && data.is_cuda()) {
    s.lane = lane_of(data.device());
    s.lane->follow_current();
    s.guard = std::make_unique<c10::StreamGuard>(s.lane->stream);
  }
  return s;
}

template <class Host>
void WeftBackend::post_host(const Start& s, Host host) {
  MPI_Request r;
  int err = host(comm_, &r);
  if (err)
    check(err, s->what().c_str());
  s->requests.push_back(r);
}

template <class Host, class Device>
void WeftBackend::post(const Start& s, Host host, Device device) {
  if (!s.lane)
    return post_host(s, host);
  int err = device(s.lane->comm);
  if (err)
    check(err, s->what().c_str());
}

// The Work of endCoalescing() is for all operations; that of each is complete.
WorkPtr WeftBackend::complete(OpType type, const std::shared_ptr<Task>& like) {
  auto task = std::make_shared<Task>();
  task->call = like->call;
  task->group = group_;
  task->poll();
  return c10::make_intrusive<WeftWork>(rank_, type, std::move(task));
}

WorkPtr WeftBackend::end(OpType type, Start& s, bool async) {
  if (s.lane)
    return finish(type, s);
  if (coalescing_)
    return complete(type, s.task);
  if (async && !s->poll())
    progress_open(*s.task);
  return c10::make_intrusive<WeftWork>(rank_, type, std::move(s.task));
}

// All that follows the communication goes to the lane now.
WorkPtr WeftBackend::finish(OpType type, Start& s) {
  for (auto& step : s->after)
    step();
  Part part{s.lane, s->outputs};
  part.tensors.insert(part.tensors.end(), s->keep.begin(), s->keep.end());
  s->after.clear();
  s->arrays.clear();
  s->keep.clear();
  if (!coalescing_)
    return c10::make_intrusive<DeviceWork>(rank_, type, std::move(s.task),
                                           std::vector<Part>{std::move(part)});
  batch_parts_.push_back(std::move(part));
  return complete(type, s.task);
}

void WeftBackend::startCoalescing() {
  coalescing_ = true;
  coalesced_ = std::make_shared<Task>();
  coalesced_->group = group_;
  coalesced_->call = "a batch of operations";
  coalesced_->timeout = options_->timeout;
  batch_.clear();
  batch_parts_.clear();
}

WorkPtr WeftBackend::endCoalescing() {
  coalescing_ = false;
  Start s{std::move(coalesced_), nullptr, nullptr};
  auto parts = std::move(batch_parts_);
  for (auto& part : exchange(std::move(batch_), s.task))
    parts.push_back(std::move(part));
  if (parts.empty())
    return end(OpType::COALESCED, s, true);
  TORCH_CHECK(s->requests.empty(), "weft: a batch has CPU and CUDA tensors");
  return c10::make_intrusive<DeviceWork>(rank_, OpType::COALESCED, std::move(s.task),
                                         std::move(parts));
}

// ---- lanes ----

const std::shared_ptr<Lane>& WeftBackend::lane_of(c10::Device device) {
  auto& lane = lanes_[device.index()];
  if (!lane)
    lane = std::make_shared<Lane>(comm_, device);
  return lane;
}

// Two ranks have a communicator of their own, because the others do not call.  Each direction has
// a lane, so a send that waits for its receiver does not hold up the messages that it waits for.
WeftBackend::Pair& WeftBackend::pair_of(c10::Device device, int peer) {
  auto& pair = pairs_[{device.index(), peer}];
  if (pair.down)
    return pair;
  std::vector<int64_t> ranks;
  for (int r : {std::min(rank_, peer), std::max(rank_, peer)})
    ranks.push_back(ranks_.empty() ? r : ranks_[r]);
  Task creation;
  creation.group = group_;
  creation.call = c10::str("start of messages of CUDA tensors with rank ", peer);
  if (pair.comm == MPI_COMM_NULL &&
      !world_comm(ranks, world_tag(ranks), options_->timeout, &pair.comm))
    creation.fail_late(options_->timeout);
  pair.up = std::make_shared<Lane>(pair.comm, device);
  pair.down = std::make_shared<Lane>(pair.comm, device);
  return pair;
}

// Starts messages in an order in which no rank waits for another: pairs by their ranks, then sends,
// which do not wait on the host, then receives.
std::vector<Part> WeftBackend::exchange(std::vector<Message> messages,
                                        const std::shared_ptr<Task>& task) {
  std::vector<Part> parts;
  std::vector<const Message*> sorted;
  for (auto& m : messages)
    sorted.push_back(&m);
  std::stable_sort(sorted.begin(), sorted.end(),
                   [](const Message* a, const Message* b) { return a->peer < b->peer; });
  for (auto* m : sorted)
    pair_of(m->data.device(), m->peer);
  std::stable_sort(sorted.begin(), sorted.end(),
                   [](const Message* a, const Message* b) { return a->sends > b->sends; });
  for (auto* m : sorted) {
    Pair& pair = pair_of(m->data.device(), m->peer);
    Part part{(m->peer > rank_) == m->sends ? pair.up : pair.down, {m->data}};
    Moved data(m->data);
    int to = m->peer > rank_ ? 1 : 0;
    part.lane->follow_current();
    int err = m->sends ? MPIX_Send_enqueue_c(m->data.data_ptr(), data.n, data.type, to, m->tag,
                                             part.lane->comm)
                       : MPIX_Irecv_enqueue_c(m->data.data_ptr(), data.n, data.type, to, m->tag,
                                              part.lane->comm, &part.receive);
    if (err)
      check(err, task->what().c_str());
    parts.push_back(std::move(part));
  }
  return parts;
}

WorkPtr WeftBackend::message(Message m, const char* call, OpType type) {
  TORCH_CHECK(m.peer != rank_, "weft: ", call, " of a CUDA tensor to or from the same rank");
  TORCH_CHECK(comm_ != MPI_COMM_NULL && !group_->aborted, "weft: ", call, " on group ",
              group_->name, ", which was ", group_->aborted ? "aborted" : "destroyed");
  auto task = std::make_shared<Task>();
  task->group = group_;
  task->call = c10::str(call, " of ", m.data.nbytes(), " bytes with rank ", m.peer);
  if (coalescing_) {
    batch_.push_back(std::move(m));
    return complete(type, task);
  }
  task->outputs.push_back(m.data);
  auto parts = exchange({std::move(m)}, task);
  return c10::make_intrusive<DeviceWork>(rank_, type, std::move(task), std::move(parts));
}

// ---- reductions ----

WorkPtr WeftBackend::broadcast(Tensors& tensors, const c10d::BroadcastOptions& opts) {
  const at::Tensor& t = only(tensors, "broadcast");
  check_rank(opts.rootRank, "the root");
  auto root = static_cast<int>(opts.rootRank);
  Moved d(t);
  Start s = begin("broadcast", t, opts.timeout);
  calls_++;
  post(s,
       [&](auto... at) { return MPI_Ibcast_c(t.data_ptr(), d.n, d.type, root, at...); },
       [&](MPI_Comm c) {
         return MPIX_Bcast_enqueue(t.data_ptr(), narrow(d.n), d.type, root, c);
       });
  s->outputs.push_back(t);
  return end(OpType::BROADCAST, s, opts.asyncOp);
}

void WeftBackend::start_allreduce(const Start& s, at::Tensor t, const c10d::ReduceOp& op) {
  check_tensor(t);
  Reduction red = reduction_of(op, t.scalar_type());
  if (red.factor.defined())
    t.mul_(red.factor.to(t.scalar_type()));
  calls_++;
  auto call = [&](auto f, auto... at) {
    return f(MPI_IN_PLACE, t.data_ptr(), t.numel(), red.type, red.op, at...);
  };
  post(s, [&](auto... at) { return call(MPI_Iallreduce_c, at...); },
       [&](auto... at) { return call(MPIX_Allreduce_enqueue_c, at...); });
  s->outputs.push_back(t);
  finish_reduction(s, red, t, size_);
}

// Indices and values of all ranks are gathered and added up in this call: their numbers differ, so
// the second exchange depends on the first.  The Work is complete.
WorkPtr WeftBackend::allreduce_sparse(Tensors& tensors, const c10d::AllreduceOptions& opts) {
  TORCH_CHECK(tensors.size() == 1 && tensors[0].is_sparse() && tensors[0].device().is_cpu(),
              "weft: allreduce_sparse takes one sparse COO tensor on the CPU");
  TORCH_CHECK(opts.reduceOp == c10d::ReduceOp::SUM, "weft: sparse tensors can only be summed");
  TORCH_CHECK(!coalescing_, "weft: sparse tensors cannot be a part of a batch");
  at::Tensor own = tensors[0].coalesce(), result = tensors[0];
  at::Tensor count = at::scalar_tensor(own._nnz(), at::kLong).reshape({1});
  at::Tensor counts = at::empty({size_}, at::kLong);
  Start s = begin("allreduce_sparse", own._values(), opts.timeout);
  start_allgather(s, counts, count);
  s->wait(s->timeout);

  at::Tensor indices = own._indices().t().contiguous(), values = own._values().contiguous();
  Tensors all_indices, all_values;
  for (int r = 0; r < size_; r++) {
    auto n = counts[r].item<int64_t>();
    auto of_rank = values.sizes().vec();
    of_rank[0] = n;
    all_indices.push_back(at::empty({n, indices.size(1)}, indices.options()));
    all_values.push_back(at::empty(of_rank, values.options()));
  }
  s = begin("allreduce_sparse", values, opts.timeout);
  start_allgather_list(s, all_indices, indices);
  start_allgather_list(s, all_values, values);
  s->wait(s->timeout);
  result.copy_(at::sparse_coo_tensor(at::cat(all_indices).t(), at::cat(all_values), own.sizes())
                   .coalesce());
  s->outputs = {result};
  return end(OpType::ALLREDUCE, s, false);
}

WorkPtr WeftBackend::allreduce(Tensors& tensors, const c10d::AllreduceOptions& opts) {
  if (tensors.size() == 1 && tensors[0].is_sparse())
    return allreduce_sparse(tensors, opts);
  const at::Tensor& t = only(tensors, "allreduce");
  Start s = begin("allreduce", t, opts.timeout);
  start_allreduce(s, t, opts.reduceOp);
  return end(OpType::ALLREDUCE, s, opts.asyncOp);
}

WorkPtr WeftBackend::allreduce_coalesced(Tensors& tensors,
                                         const c10d::AllreduceCoalescedOptions& opts) {
  TORCH_CHECK(!tensors.empty(), "weft: allreduce_coalesced of no tensor");
  Start s = begin("allreduce_coalesced", tensors[0], opts.timeout);
  for (auto& t : tensors)
    start_allreduce(s, t, opts.reduceOp);
  return end(OpType::ALLREDUCE_COALESCED, s, opts.asyncOp);
}

WorkPtr WeftBackend::reduce(Tensors& tensors, const c10d::ReduceOptions& opts) {
  const at::Tensor& t = only(tensors, "reduce");
  check_rank(opts.rootRank, "the root");
  auto to = static_cast<int>(opts.rootRank);
  bool root = to == rank_;
  Reduction red = reduction_of(opts.reduceOp, t.scalar_type());
  Start s = begin("reduce", t, opts.timeout);
  at::Tensor in = scaled(red, t);
  bool in_place = root && in.is_same(t);
  calls_++;
  const void* from = in_place ? MPI_IN_PLACE : in.data_ptr();
  void* out = root ? t.data_ptr() : nullptr;
  post(s,
       [&](auto... at) {
         return MPI_Ireduce_c(from, out, t.numel(), red.type, red.op, to, at...);
       },
       [&](MPI_Comm c) {
         return MPIX_Reduce_enqueue(from, out, narrow(t.numel()), red.type, red.op, to, c);
       });
  s->keep.push_back(in);
  s->outputs.push_back(t);
  if (root)
    finish_reduction(s, red, t, size_);
  return end(OpType::REDUCE, s, opts.asyncOp);
}

void WeftBackend::start_reduce_scatter(const Start& s, const at::Tensor& out, at::Tensor in,
                                       const c10d::ReduceOp& op) {
  check_tensor(in);
  check_tensor(out);
  check_alike(in, out);
  TORCH_CHECK(in.numel() == out.numel() * size_, "weft: reduce_scatter has ", in.numel(),
              " elements of input, expected ", size_, " times the ", out.numel(), " of output");
  Reduction red = reduction_of(op, in.scalar_type());
  in = scaled(red, in);
  // The output may be a part of the input; MPI wants separate buffers.
  if (out.storage().is_alias_of(in.storage()))
    in = in.clone();
  calls_++;
  post(s,
       [&](auto... at) {
         return MPI_Ireduce_scatter_block_c(in.data_ptr(), out.data_ptr(), out.numel(), red.type,
                                            red.op, at...);
       },
       [&](MPI_Comm c) {
         return MPIX_Reduce_scatter_block_enqueue(in.data_ptr(), out.data_ptr(),
                                                  narrow(out.numel()), red.type, red.op, c);
       });
  s->keep.push_back(in);
  s->outputs.push_back(out);
  finish_reduction(s, red, out, size_);
}

WorkPtr WeftBackend::_reduce_scatter_base(at::Tensor& output, at::Tensor& input,
                                          const c10d::ReduceScatterOptions& opts) {
  Start s = begin("reduce_scatter_tensor", input, opts.timeout);
  start_reduce_scatter(s, output, input, opts.reduceOp);
  return end(OpType::_REDUCE_SCATTER_BASE, s, opts.asyncOp);
}

WorkPtr WeftBackend::reduce_scatter_tensor_coalesced(Tensors& outputs, Tensors& inputs,
                                                     const c10d::ReduceScatterOptions& opts) {
  TORCH_CHECK(!inputs.empty() && inputs.size() == outputs.size(), "weft: ", inputs.size(),
              " inputs and ", outputs.size(), " outputs");
  Start s = begin("reduce_scatter_tensor_coalesced", inputs[0], opts.timeout);
  for (size_t i = 0; i < inputs.size(); i++)
    start_reduce_scatter(s, outputs[i], inputs[i], opts.reduceOp);
  return end(OpType::COALESCED, s, opts.asyncOp);
}

// Parts of different lengths are allowed.
WorkPtr WeftBackend::reduce_scatter(Tensors& outputs, TensorLists& inputs,
                                    const c10d::ReduceScatterOptions& opts) {
  const at::Tensor& out = only(outputs, "reduce_scatter");
  TORCH_CHECK(inputs.size() == 1, "weft: reduce_scatter takes one list of inputs");
  check_list(inputs[0], size_, out, "inputs");
  TORCH_CHECK(inputs[0][rank_].numel() == out.numel(), "weft: reduce_scatter has ", out.numel(),
              " elements of output and ", inputs[0][rank_].numel(), " of input for this rank");
  Reduction red = reduction_of(opts.reduceOp, out.scalar_type());
  Start s = begin("reduce_scatter", out, opts.timeout);
  at::Tensor in = scaled(red, flatten(inputs[0]));
  std::vector<MPI_Count> counts;
  for (auto& t : inputs[0])
    counts.push_back(t.numel());
  calls_++;
  auto held = std::make_shared<std::vector<MPI_Count>>(std::move(counts));
  post(s,
       [&](auto... at) {
         return MPI_Ireduce_scatter_c(in.data_ptr(), out.data_ptr(), held->data(), red.type,
                                      red.op, at...);
       },
       [&](MPI_Comm c) {
         return MPIX_Reduce_scatter_enqueue(in.data_ptr(), out.data_ptr(), narrow(*held).data(),
                                            red.type, red.op, c);
       });
  s->keep.push_back(in);
  s->arrays.push_back(held);
  s->outputs.push_back(out);
  finish_reduction(s, red, out, size_);
  return end(OpType::REDUCE_SCATTER, s, opts.asyncOp);
}

// ---- gathers ----

void WeftBackend::start_allgather(const Start& s, const at::Tensor& out, const at::Tensor& in) {
  check_tensor(in);
  check_tensor(out);
  check_alike(in, out);
  TORCH_CHECK(out.numel() == in.numel() * size_, "weft: all_gather has ", out.numel(),
              " elements of output, expected ", size_, " times the ", in.numel(), " of input");
  auto* own = static_cast<char*>(out.data_ptr()) + in.nbytes() * rank_;
  bool in_place = in.data_ptr() == own;
  at::Tensor from = !in_place && out.storage().is_alias_of(in.storage()) ? in.clone() : in;
  const void* data = in_place ? MPI_IN_PLACE : from.data_ptr();
  Moved d(in);
  calls_++;
  post(s,
       [&](auto... at) {
         return MPI_Iallgather_c(data, d.n, d.type, out.data_ptr(), d.n, d.type, at...);
       },
       [&](MPI_Comm c) {
         int n = narrow(d.n);
         return MPIX_Allgather_enqueue(data, n, d.type, out.data_ptr(), n, d.type, c);
       });
  s->keep.push_back(from);
  s->outputs.push_back(out);
}

WorkPtr WeftBackend::_allgather_base(at::Tensor& output, at::Tensor& input,
                                     const c10d::AllgatherOptions& opts) {
  Start s = begin("all_gather_into_tensor", input, opts.timeout);
  start_allgather(s, output, input);
  return end(OpType::_ALLGATHER_BASE, s, opts.asyncOp);
}

WorkPtr WeftBackend::allgather_into_tensor_coalesced(Tensors& outputs, Tensors& inputs,
                                                     const c10d::AllgatherOptions& opts) {
  TORCH_CHECK(!inputs.empty() && inputs.size() == outputs.size(), "weft: ", inputs.size(),
              " inputs and ", outputs.size(), " outputs");
  Start s = begin("all_gather_into_tensor_coalesced", inputs[0], opts.timeout);
  for (size_t i = 0; i < inputs.size(); i++)
    start_allgather(s, outputs[i], inputs[i]);
  return end(OpType::COALESCED, s, opts.asyncOp);
}

// The outputs may have different lengths.
void WeftBackend::start_allgather_list(const Start& s, Tensors& outs, const at::Tensor& in) {
  check_tensor(in);
  check_list(outs, size_, in, "outputs");
  TORCH_CHECK(outs[rank_].numel() == in.numel(), "weft: all_gather has ", in.numel(),
              " elements of input and ", outs[rank_].numel(), " of output for this rank");
  at::Tensor flat = flat_like(outs);
  auto b = std::make_shared<Blocks>(blocks_of(outs));
  calls_++;
  post(s,
       [&](auto... at) {
         return MPI_Iallgatherv_c(in.data_ptr(), bytes(in), MPI_BYTE, flat.data_ptr(),
                                  b->counts.data(), b->displs.data(), MPI_BYTE, at...);
       },
       [&](MPI_Comm c) {
         return MPIX_Allgatherv_enqueue(in.data_ptr(), narrow(bytes(in)), MPI_BYTE,
                                        flat.data_ptr(), b->narrow_counts().data(),
                                        b->narrow_displs().data(), MPI_BYTE, c);
       });
  s->keep.push_back(in);
  s->arrays.push_back(b);
  s->after.push_back([flat, outs] { unflatten(flat, outs); });
  s->outputs.insert(s->outputs.end(), outs.begin(), outs.end());
}

WorkPtr WeftBackend::allgather(TensorLists& outputs, Tensors& inputs,
                               const c10d::AllgatherOptions& opts) {
  const at::Tensor& in = only(inputs, "all_gather");
  TORCH_CHECK(outputs.size() == 1, "weft: all_gather takes one list of outputs");
  Start s = begin("all_gather", in, opts.timeout);
  start_allgather_list(s, outputs[0], in);
  return end(OpType::ALLGATHER, s, opts.asyncOp);
}

// outputs[rank][i] belongs to inputs[i].
WorkPtr WeftBackend::allgather_coalesced(TensorLists& outputs, Tensors& inputs,
                                         const c10d::AllgatherOptions& opts) {
  TORCH_CHECK(static_cast<int>(outputs.size()) == size_ && !inputs.empty(),
              "weft: all_gather_coalesced has ", outputs.size(), " lists for ", size_, " ranks");
  Start s = begin("all_gather_coalesced", inputs[0], opts.timeout);
  for (size_t i = 0; i < inputs.size(); i++) {
    Tensors outs;
    for (auto& of_rank : outputs) {
      TORCH_CHECK(of_rank.size() == inputs.size(), "weft: all_gather_coalesced has ",
                  of_rank.size(), " outputs of a rank, expected ", inputs.size());
      outs.push_back(of_rank[i]);
    }
    start_allgather_list(s, outs, inputs[i]);
  }
  return end(OpType::ALLGATHER_COALESCED, s, opts.asyncOp);
}

void WeftBackend::start_gather(const Start& s, const at::Tensor& in, void* out, int root) {
  calls_++;
  post(s,
       [&](auto... at) {
         return MPI_Igather_c(in.data_ptr(), bytes(in), MPI_BYTE, out, bytes(in), MPI_BYTE, root,
                              at...);
       },
       [&](MPI_Comm c) {
         Blocks b(size_, bytes(in));
         return MPIX_Gatherv_enqueue(in.data_ptr(), narrow(bytes(in)), MPI_BYTE, out,
                                     b.narrow_counts().data(), b.narrow_displs().data(), MPI_BYTE,
                                     root, c);
       });
  s->keep.push_back(in);
}

WorkPtr WeftBackend::gather_into_tensor(at::Tensor& output, at::Tensor& input,
                                        const c10d::GatherOptions& opts) {
  check_tensor(input);
  check_rank(opts.rootRank, "the root");
  bool root = opts.rootRank == rank_;
  if (root) {
    check_tensor(output);
    check_alike(input, output);
    TORCH_CHECK(output.numel() == input.numel() * size_, "weft: gather has ", output.numel(),
                " elements of output, expected ", size_, " times the ", input.numel(),
                " of input");
  }
  Start s = begin("gather_into_tensor", input, opts.timeout);
  start_gather(s, input, root ? output.data_ptr() : nullptr, static_cast<int>(opts.rootRank));
  if (root)
    s->outputs.push_back(output);
  return end(OpType::GATHER, s, opts.asyncOp);
}

WorkPtr WeftBackend::gather(TensorLists& outputs, Tensors& inputs,
                            const c10d::GatherOptions& opts) {
  const at::Tensor& in = only(inputs, "gather");
  check_rank(opts.rootRank, "the root");
  bool root = opts.rootRank == rank_;
  at::Tensor flat;
  TORCH_CHECK(root ? outputs.size() == 1 : outputs.empty() || outputs[0].empty(),
              "weft: gather takes a list of outputs at the root, and none elsewhere");
  Start s = begin("gather", in, opts.timeout);
  if (root) {
    check_list(outputs[0], size_, in, "outputs");
    for (auto& t : outputs[0])
      TORCH_CHECK(t.numel() == in.numel(), "weft: gather has outputs of ", t.numel(), " and ",
                  in.numel(), " elements");
    flat = flat_like(outputs[0]);
    s->outputs = outputs[0];
    auto outs = outputs[0];
    s->after.push_back([flat, outs] { unflatten(flat, outs); });
  }
  start_gather(s, in, root ? flat.data_ptr() : nullptr, static_cast<int>(opts.rootRank));
  return end(OpType::GATHER, s, opts.asyncOp);
}

WorkPtr WeftBackend::scatter(Tensors& outputs, TensorLists& inputs,
                             const c10d::ScatterOptions& opts) {
  const at::Tensor& out = only(outputs, "scatter");
  check_rank(opts.rootRank, "the root");
  auto from = static_cast<int>(opts.rootRank);
  bool root = from == rank_;
  at::Tensor flat;
  TORCH_CHECK(root ? inputs.size() == 1 : inputs.empty() || inputs[0].empty(),
              "weft: scatter takes a list of inputs at the root, and none elsewhere");
  Start s = begin("scatter", out, opts.timeout);
  if (root) {
    check_list(inputs[0], size_, out, "inputs");
    for (auto& t : inputs[0])
      TORCH_CHECK(t.numel() == out.numel(), "weft: scatter has inputs of ", t.numel(), " and ",
                  out.numel(), " elements");
    flat = flatten(inputs[0]);
    s->keep.push_back(flat);
  }
  calls_++;
  const void* data = root ? flat.data_ptr() : nullptr;
  post(s,
       [&](auto... at) {
         return MPI_Iscatter_c(data, bytes(out), MPI_BYTE, out.data_ptr(), bytes(out), MPI_BYTE,
                               from, at...);
       },
       [&](MPI_Comm c) {
         Blocks b(size_, bytes(out));
         return MPIX_Scatterv_enqueue(data, b.narrow_counts().data(), b.narrow_displs().data(),
                                      MPI_BYTE, out.data_ptr(), narrow(bytes(out)), MPI_BYTE, from,
                                      c);
       });
  s->outputs.push_back(out);
  return end(OpType::SCATTER, s, opts.asyncOp);
}

// ---- all to all ----

void WeftBackend::start_alltoall(const Start& s, const at::Tensor& in, const at::Tensor& out) {
  MPI_Count n = bytes(in) / size_;
  post(s,
       [&](auto... at) {
         return MPI_Ialltoall_c(in.data_ptr(), n, MPI_BYTE, out.data_ptr(), n, MPI_BYTE, at...);
       },
       [&](MPI_Comm c) {
         return MPIX_Alltoall_enqueue(in.data_ptr(), narrow(n), MPI_BYTE, out.data_ptr(),
                                      narrow(n), MPI_BYTE, c);
       });
}

void WeftBackend::start_alltoallv(const Start& s, const at::Tensor& in, const at::Tensor& out,
                                  Blocks to_ranks, Blocks from_ranks) {
  auto to = std::make_shared<Blocks>(std::move(to_ranks));
  auto from = std::make_shared<Blocks>(std::move(from_ranks));
  post(s,
       [&](auto... at) {
         return MPI_Ialltoallv_c(in.data_ptr(), to->counts.data(), to->displs.data(), MPI_BYTE,
                                 out.data_ptr(), from->counts.data(), from->displs.data(),
                                 MPI_BYTE, at...);
       },
       [&](MPI_Comm c) {
         return MPIX_Alltoallv_enqueue(
             in.data_ptr(), to->narrow_counts().data(), to->narrow_displs().data(), MPI_BYTE,
             out.data_ptr(), from->narrow_counts().data(), from->narrow_displs().data(), MPI_BYTE,
             c);
       });
  s->arrays.insert(s->arrays.end(), {to, from});
}

WorkPtr WeftBackend::alltoall_base(at::Tensor& output, at::Tensor& input,
                                   std::vector<int64_t>& out_rows, std::vector<int64_t>& in_rows,
                                   const c10d::AllToAllOptions& opts) {
  check_tensor(input);
  check_tensor(output);
  check_alike(input, output);
  Blocks to = blocks_of(input, in_rows, size_, "input");
  Blocks from = blocks_of(output, out_rows, size_, "output");
  Start s = begin("all_to_all_single", input, opts.timeout);
  calls_++;
  if (in_rows.empty() && out_rows.empty())
    start_alltoall(s, input, output);
  else
    start_alltoallv(s, input, output, std::move(to), std::move(from));
  s->keep.push_back(input);
  s->outputs.push_back(output);
  return end(OpType::ALLTOALL_BASE, s, opts.asyncOp);
}

WorkPtr WeftBackend::alltoall(Tensors& outputs, Tensors& inputs,
                              const c10d::AllToAllOptions& opts) {
  TORCH_CHECK(!inputs.empty(), "weft: all_to_all of no tensor");
  check_list(inputs, size_, inputs[0], "inputs");
  check_list(outputs, size_, inputs[0], "outputs");
  Start s = begin("all_to_all", inputs[0], opts.timeout);
  at::Tensor in = flatten(inputs), out = flat_like(outputs);
  s->call = c10::str("all_to_all of ", in.nbytes(), " bytes");
  calls_++;
  start_alltoallv(s, in, out, blocks_of(inputs), blocks_of(outputs));
  s->keep.push_back(in);
  s->outputs = outputs;
  Tensors outs = outputs;
  s->after.push_back([out, outs] { unflatten(out, outs); });
  return end(OpType::ALLTOALL, s, opts.asyncOp);
}

// ---- point to point ----

WorkPtr WeftBackend::send(Tensors& tensors, int to, int tag) {
  const at::Tensor& t = only(tensors, "send");
  check_rank(to, "the destination");
  check_tag(tag);
  if (t.is_cuda())
    return message({t, to, tag, true}, "send", OpType::SEND);
  Start s = begin("send", t, c10d::kUnsetTimeout);
  s->call += c10::str(" to rank ", to, " with tag ", tag);
  post_host(s, [&](auto... at) {
    return MPI_Isend_c(t.data_ptr(), bytes(t), MPI_BYTE, to, tag, at...);
  });
  s->keep.push_back(t);
  return end(OpType::SEND, s, true);
}

WorkPtr WeftBackend::receive(Tensors& tensors, int from, int tag, const char* call) {
  const at::Tensor& t = only(tensors, call);
  check_tag(tag);
  if (t.is_cuda()) {
    TORCH_CHECK(from != MPI_ANY_SOURCE, "weft: a CUDA tensor is received from a given rank only");
    return message({t, from, tag, false}, "recv", OpType::RECV);
  }
  Start s = begin(call, t, c10d::kUnsetTimeout);
  s->call += from == MPI_ANY_SOURCE ? c10::str(" with tag ", tag)
                                       : c10::str(" from rank ", from, " with tag ", tag);
  post_host(s, [&](auto... at) {
    return MPI_Irecv_c(t.data_ptr(), bytes(t), MPI_BYTE, from, tag, at...);
  });
  s->outputs.push_back(t);
  return end(from == MPI_ANY_SOURCE ? OpType::RECVANYSOURCE : OpType::RECV, s, true);
}

WorkPtr WeftBackend::recv(Tensors& tensors, int from, int tag) {
  check_rank(from, "the source");
  return receive(tensors, from, tag, "recv");
}

WorkPtr WeftBackend::recvAnysource(Tensors& tensors, int tag) {
  return receive(tensors, MPI_ANY_SOURCE, tag, "recv from any source");
}

// ---- barriers ----

WorkPtr WeftBackend::barrier(const c10d::BarrierOptions& opts) {
  Start s = begin("barrier", {}, opts.timeout);
  calls_++;
  post_host(s, [&](auto... at) { return MPI_Ibarrier(at...); });
  return end(OpType::BARRIER, s, opts.asyncOp);
}

// Rank 0 receives an empty message from each rank, and then sends its verdict to those: nothing, or
// the text of the error.  The tag is one that no message of the user has.
void WeftBackend::monitoredBarrier(const c10d::BarrierOptions& opts, bool all_ranks) {
  auto until = std::chrono::steady_clock::now() +
               (opts.timeout.count() > 0 ? opts.timeout : options_->timeout);
  auto left = [until] {
    auto ms = std::chrono::duration_cast<Milliseconds>(until - std::chrono::steady_clock::now());
    return std::max(ms, Milliseconds(1));
  };
  auto exchange = [&](int peer, bool receives, std::shared_ptr<std::string> text) {
    Start s = begin("monitored_barrier", {}, left());
    auto len = static_cast<int>(text->size());
    s->call += c10::str(receives ? ", from rank " : ", to rank ", peer);
    s->arrays.push_back(text);
    post_host(s, [&](auto... at) {
      return receives ? MPI_Irecv(text->data(), len, MPI_CHAR, peer, tag_max_, at...)
                      : MPI_Isend(text->data(), len, MPI_CHAR, peer, tag_max_, at...);
    });
    return s.task;
  };
  auto nothing = std::make_shared<std::string>();
  if (rank_) {
    auto verdict = std::make_shared<std::string>(kVerdict, '\0');
    exchange(0, false, nothing)->wait(left());
    exchange(0, true, verdict)->wait(left() + kVerdictLate);
    TORCH_CHECK(!(*verdict)[0], verdict->c_str());
    return;
  }
  std::vector<std::shared_ptr<Task>> arrivals(size_);
  std::string missing;
  for (int peer = 1; peer < size_; peer++)
    arrivals[peer] = exchange(peer, true, nothing);
  for (int peer = 1; peer < size_ && (missing.empty() || all_ranks); peer++) {
    if (!arrivals[peer]->ends_within(left()) || arrivals[peer]->error)
      missing += c10::str(missing.empty() ? "" : ", ", peer);
  }
  auto text = std::make_shared<std::string>();
  if (!missing.empty()) {
    world_spoil();
    *text = c10::str("weft: monitored_barrier in group ", group_->name,
                     ": these ranks have not arrived in time: ", missing)
                .substr(0, kVerdict - 1);
  }
  for (int peer = 1; peer < size_; peer++) {
    if (arrivals[peer]->is_done() && !arrivals[peer]->error)
      exchange(peer, false, text)->wait(left() + kVerdictLate);
    else
      arrivals[peer]->hand_over();
  }
  TORCH_CHECK(missing.empty(), *text);
}

}  // namespace weft
