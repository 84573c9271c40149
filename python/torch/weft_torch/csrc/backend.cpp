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
  TORCH_CHECK(t.device().is_cpu(), "weft: moves CPU tensors only, and this one is on ", t.device(),
              "; use \"cpu:weft,cuda:nccl\"");
  TORCH_CHECK(t.layout() == at::kStrided,
              "weft: tensors must be dense here; all_reduce alone takes sparse ones");
  TORCH_CHECK(t.is_contiguous(), "weft: tensors must be contiguous");
}

const at::Tensor& only(const Tensors& tensors, const char* call) {
  TORCH_CHECK(tensors.size() == 1, "weft: ", call, " takes one tensor, found ", tensors.size());
  check_tensor(tensors[0]);
  return tensors[0];
}

void check_same_type(const at::Tensor& a, const at::Tensor& b) {
  TORCH_CHECK(a.scalar_type() == b.scalar_type(), "weft: tensors have dtypes ", a.scalar_type(),
              " and ", b.scalar_type());
}

MPI_Count bytes(const at::Tensor& t) { return static_cast<MPI_Count>(t.nbytes()); }

int64_t total(const Tensors& list) {
  return std::accumulate(list.begin(), list.end(), int64_t{0},
                         [](int64_t n, const at::Tensor& t) { return n + t.numel(); });
}

void check_list(const Tensors& list, int size, const at::Tensor& like, const char* what) {
  TORCH_CHECK(static_cast<int>(list.size()) == size, "weft: the list of ", what, " has ",
              list.size(), " tensors, expected one for each of ", size, " ranks");
  for (auto& t : list) {
    check_tensor(t);
    check_same_type(t, like);
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
struct Blocks {
  std::vector<MPI_Count> counts;
  std::vector<MPI_Aint> displs;
  void add(MPI_Count n) {
    displs.push_back(counts.empty() ? 0 : displs.back() + static_cast<MPI_Aint>(counts.back()));
    counts.push_back(n);
  }
};

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
void finish_reduction(const std::shared_ptr<Task>& task, const Reduction& r, at::Tensor t,
                      int size) {
  if (!r.average)
    return;
  task->after.push_back([t, size]() mutable {
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
  if (comm_ != MPI_COMM_NULL && !world_spoilt() && !group_->aborted)
    world_free(&comm_);
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

std::shared_ptr<Task> WeftBackend::begin(const char* call, const at::Tensor& data,
                                         Milliseconds timeout) {
  TORCH_CHECK(comm_ != MPI_COMM_NULL && !group_->aborted, "weft: ", call, " on group ",
              group_->name, ", which was ", group_->aborted ? "aborted" : "destroyed");
  auto task = coalescing_ ? coalesced_ : std::make_shared<Task>();
  task->timeout = timeout.count() > 0 ? timeout : options_->timeout;
  task->group = group_;
  task->call = data.defined() ? c10::str(call, " of ", data.nbytes(), " bytes") : call;
  return task;
}

void WeftBackend::post(const std::shared_ptr<Task>& task, int err, const MPI_Request& request) {
  if (err)
    check(err, task->what().c_str());
  task->requests.push_back(request);
}

WorkPtr WeftBackend::end(OpType type, std::shared_ptr<Task> task, bool async) {
  if (coalescing_) {  // the Work of endCoalescing() is for all; this one is complete
    auto complete = std::make_shared<Task>();
    complete->call = task->call;
    complete->group = group_;
    complete->poll();
    task = std::move(complete);
  } else if (async && !task->poll()) {
    progress_open(*task);
  }
  return c10::make_intrusive<WeftWork>(rank_, type, std::move(task));
}

void WeftBackend::startCoalescing() {
  coalescing_ = true;
  coalesced_ = std::make_shared<Task>();
  coalesced_->group = group_;
  coalesced_->call = "a batch of operations";
  coalesced_->timeout = options_->timeout;
}

WorkPtr WeftBackend::endCoalescing() {
  coalescing_ = false;
  auto task = std::move(coalesced_);
  return end(OpType::COALESCED, task, true);
}

// ---- reductions ----

WorkPtr WeftBackend::broadcast(Tensors& tensors, const c10d::BroadcastOptions& opts) {
  const at::Tensor& t = only(tensors, "broadcast");
  MPI_Request r;
  check_rank(opts.rootRank, "the root");
  auto task = begin("broadcast", t, opts.timeout);
  calls_++;
  post(task,
       MPI_Ibcast_c(t.data_ptr(), bytes(t), MPI_BYTE, static_cast<int>(opts.rootRank), comm_, &r),
       r);
  task->outputs.push_back(t);
  return end(OpType::BROADCAST, task, opts.asyncOp);
}

void WeftBackend::start_allreduce(const std::shared_ptr<Task>& task, at::Tensor t,
                                  const c10d::ReduceOp& op) {
  MPI_Request r;
  check_tensor(t);
  Reduction red = reduction_of(op, t.scalar_type());
  if (red.factor.defined())
    t.mul_(red.factor.to(t.scalar_type()));
  calls_++;
  post(task,
       MPI_Iallreduce_c(MPI_IN_PLACE, t.data_ptr(), t.numel(), red.type, red.op, comm_, &r), r);
  task->outputs.push_back(t);
  finish_reduction(task, red, t, size_);
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
  auto task = begin("allreduce_sparse", own._values(), opts.timeout);
  start_allgather(task, counts, count);
  task->wait(task->timeout);

  at::Tensor indices = own._indices().t().contiguous(), values = own._values().contiguous();
  Tensors all_indices, all_values;
  for (int r = 0; r < size_; r++) {
    auto n = counts[r].item<int64_t>();
    auto of_rank = values.sizes().vec();
    of_rank[0] = n;
    all_indices.push_back(at::empty({n, indices.size(1)}, indices.options()));
    all_values.push_back(at::empty(of_rank, values.options()));
  }
  task = begin("allreduce_sparse", values, opts.timeout);
  start_allgather_list(task, all_indices, indices);
  start_allgather_list(task, all_values, values);
  task->wait(task->timeout);
  result.copy_(at::sparse_coo_tensor(at::cat(all_indices).t(), at::cat(all_values), own.sizes())
                   .coalesce());
  task->outputs = {result};
  return end(OpType::ALLREDUCE, task, false);
}

WorkPtr WeftBackend::allreduce(Tensors& tensors, const c10d::AllreduceOptions& opts) {
  if (tensors.size() == 1 && tensors[0].is_sparse())
    return allreduce_sparse(tensors, opts);
  const at::Tensor& t = only(tensors, "allreduce");
  auto task = begin("allreduce", t, opts.timeout);
  start_allreduce(task, t, opts.reduceOp);
  return end(OpType::ALLREDUCE, task, opts.asyncOp);
}

WorkPtr WeftBackend::allreduce_coalesced(Tensors& tensors,
                                         const c10d::AllreduceCoalescedOptions& opts) {
  TORCH_CHECK(!tensors.empty(), "weft: allreduce_coalesced of no tensor");
  auto task = begin("allreduce_coalesced", tensors[0], opts.timeout);
  for (auto& t : tensors)
    start_allreduce(task, t, opts.reduceOp);
  return end(OpType::ALLREDUCE_COALESCED, task, opts.asyncOp);
}

WorkPtr WeftBackend::reduce(Tensors& tensors, const c10d::ReduceOptions& opts) {
  const at::Tensor& t = only(tensors, "reduce");
  MPI_Request r;
  check_rank(opts.rootRank, "the root");
  bool root = opts.rootRank == rank_;
  Reduction red = reduction_of(opts.reduceOp, t.scalar_type());
  auto task = begin("reduce", t, opts.timeout);
  at::Tensor in = scaled(red, t);
  bool in_place = root && in.is_same(t);
  calls_++;
  post(task,
       MPI_Ireduce_c(in_place ? MPI_IN_PLACE : in.data_ptr(), root ? t.data_ptr() : nullptr,
                     t.numel(), red.type, red.op, static_cast<int>(opts.rootRank), comm_, &r),
       r);
  task->keep.push_back(in);
  task->outputs.push_back(t);
  if (root)
    finish_reduction(task, red, t, size_);
  return end(OpType::REDUCE, task, opts.asyncOp);
}

void WeftBackend::start_reduce_scatter(const std::shared_ptr<Task>& task, const at::Tensor& out,
                                       at::Tensor in, const c10d::ReduceOp& op) {
  MPI_Request r;
  check_tensor(in);
  check_tensor(out);
  check_same_type(in, out);
  TORCH_CHECK(in.numel() == out.numel() * size_, "weft: reduce_scatter has ", in.numel(),
              " elements of input, expected ", size_, " times the ", out.numel(), " of output");
  Reduction red = reduction_of(op, in.scalar_type());
  in = scaled(red, in);
  // The output may be a part of the input; MPI wants separate buffers.
  if (out.storage().is_alias_of(in.storage()))
    in = in.clone();
  calls_++;
  post(task,
       MPI_Ireduce_scatter_block_c(in.data_ptr(), out.data_ptr(), out.numel(), red.type, red.op,
                                   comm_, &r),
       r);
  task->keep.push_back(in);
  task->outputs.push_back(out);
  finish_reduction(task, red, out, size_);
}

WorkPtr WeftBackend::_reduce_scatter_base(at::Tensor& output, at::Tensor& input,
                                          const c10d::ReduceScatterOptions& opts) {
  auto task = begin("reduce_scatter_tensor", input, opts.timeout);
  start_reduce_scatter(task, output, input, opts.reduceOp);
  return end(OpType::_REDUCE_SCATTER_BASE, task, opts.asyncOp);
}

WorkPtr WeftBackend::reduce_scatter_tensor_coalesced(Tensors& outputs, Tensors& inputs,
                                                     const c10d::ReduceScatterOptions& opts) {
  TORCH_CHECK(!inputs.empty() && inputs.size() == outputs.size(), "weft: ", inputs.size(),
              " inputs and ", outputs.size(), " outputs");
  auto task = begin("reduce_scatter_tensor_coalesced", inputs[0], opts.timeout);
  for (size_t i = 0; i < inputs.size(); i++)
    start_reduce_scatter(task, outputs[i], inputs[i], opts.reduceOp);
  return end(OpType::COALESCED, task, opts.asyncOp);
}

// Parts of different lengths are allowed.
WorkPtr WeftBackend::reduce_scatter(Tensors& outputs, TensorLists& inputs,
                                    const c10d::ReduceScatterOptions& opts) {
  const at::Tensor& out = only(outputs, "reduce_scatter");
  MPI_Request r;
  TORCH_CHECK(inputs.size() == 1, "weft: reduce_scatter takes one list of inputs");
  check_list(inputs[0], size_, out, "inputs");
  TORCH_CHECK(inputs[0][rank_].numel() == out.numel(), "weft: reduce_scatter has ", out.numel(),
              " elements of output and ", inputs[0][rank_].numel(), " of input for this rank");
  Reduction red = reduction_of(opts.reduceOp, out.scalar_type());
  auto task = begin("reduce_scatter", out, opts.timeout);
  at::Tensor in = scaled(red, flatten(inputs[0]));
  std::vector<MPI_Count> counts;
  for (auto& t : inputs[0])
    counts.push_back(t.numel());
  calls_++;
  auto held = std::make_shared<std::vector<MPI_Count>>(std::move(counts));
  post(task,
       MPI_Ireduce_scatter_c(in.data_ptr(), out.data_ptr(), held->data(), red.type, red.op, comm_,
                             &r),
       r);
  task->keep.push_back(in);
  task->arrays.push_back(held);
  task->outputs.push_back(out);
  finish_reduction(task, red, out, size_);
  return end(OpType::REDUCE_SCATTER, task, opts.asyncOp);
}

// ---- gathers ----

void WeftBackend::start_allgather(const std::shared_ptr<Task>& task, const at::Tensor& out,
                                  const at::Tensor& in) {
  MPI_Request r;
  check_tensor(in);
  check_tensor(out);
  check_same_type(in, out);
  TORCH_CHECK(out.numel() == in.numel() * size_, "weft: all_gather has ", out.numel(),
              " elements of output, expected ", size_, " times the ", in.numel(), " of input");
  auto* own = static_cast<char*>(out.data_ptr()) + in.nbytes() * rank_;
  bool in_place = in.data_ptr() == own;
  at::Tensor from = !in_place && out.storage().is_alias_of(in.storage()) ? in.clone() : in;
  calls_++;
  post(task,
       MPI_Iallgather_c(in_place ? MPI_IN_PLACE : from.data_ptr(), bytes(in), MPI_BYTE,
                        out.data_ptr(), bytes(in), MPI_BYTE, comm_, &r),
       r);
  task->keep.push_back(from);
  task->outputs.push_back(out);
}

WorkPtr WeftBackend::_allgather_base(at::Tensor& output, at::Tensor& input,
                                     const c10d::AllgatherOptions& opts) {
  auto task = begin("all_gather_into_tensor", input, opts.timeout);
  start_allgather(task, output, input);
  return end(OpType::_ALLGATHER_BASE, task, opts.asyncOp);
}

WorkPtr WeftBackend::allgather_into_tensor_coalesced(Tensors& outputs, Tensors& inputs,
                                                     const c10d::AllgatherOptions& opts) {
  TORCH_CHECK(!inputs.empty() && inputs.size() == outputs.size(), "weft: ", inputs.size(),
              " inputs and ", outputs.size(), " outputs");
  auto task = begin("all_gather_into_tensor_coalesced", inputs[0], opts.timeout);
  for (size_t i = 0; i < inputs.size(); i++)
    start_allgather(task, outputs[i], inputs[i]);
  return end(OpType::COALESCED, task, opts.asyncOp);
}

// The outputs may have different lengths.
void WeftBackend::start_allgather_list(const std::shared_ptr<Task>& task, Tensors& outs,
                                       const at::Tensor& in) {
  MPI_Request r;
  check_tensor(in);
  check_list(outs, size_, in, "outputs");
  TORCH_CHECK(outs[rank_].numel() == in.numel(), "weft: all_gather has ", in.numel(),
              " elements of input and ", outs[rank_].numel(), " of output for this rank");
  at::Tensor flat = flat_like(outs);
  auto b = std::make_shared<Blocks>(blocks_of(outs));
  calls_++;
  post(task,
       MPI_Iallgatherv_c(in.data_ptr(), bytes(in), MPI_BYTE, flat.data_ptr(), b->counts.data(),
                         b->displs.data(), MPI_BYTE, comm_, &r),
       r);
  task->keep.push_back(in);
  task->arrays.push_back(b);
  task->after.push_back([flat, outs] { unflatten(flat, outs); });
  task->outputs.insert(task->outputs.end(), outs.begin(), outs.end());
}

WorkPtr WeftBackend::allgather(TensorLists& outputs, Tensors& inputs,
                               const c10d::AllgatherOptions& opts) {
  const at::Tensor& in = only(inputs, "all_gather");
  TORCH_CHECK(outputs.size() == 1, "weft: all_gather takes one list of outputs");
  auto task = begin("all_gather", in, opts.timeout);
  start_allgather_list(task, outputs[0], in);
  return end(OpType::ALLGATHER, task, opts.asyncOp);
}

// outputs[rank][i] belongs to inputs[i].
WorkPtr WeftBackend::allgather_coalesced(TensorLists& outputs, Tensors& inputs,
                                         const c10d::AllgatherOptions& opts) {
  TORCH_CHECK(static_cast<int>(outputs.size()) == size_ && !inputs.empty(),
              "weft: all_gather_coalesced has ", outputs.size(), " lists for ", size_, " ranks");
  auto task = begin("all_gather_coalesced", inputs[0], opts.timeout);
  for (size_t i = 0; i < inputs.size(); i++) {
    Tensors outs;
    for (auto& of_rank : outputs) {
      TORCH_CHECK(of_rank.size() == inputs.size(), "weft: all_gather_coalesced has ",
                  of_rank.size(), " outputs of a rank, expected ", inputs.size());
      outs.push_back(of_rank[i]);
    }
    start_allgather_list(task, outs, inputs[i]);
  }
  return end(OpType::ALLGATHER_COALESCED, task, opts.asyncOp);
}

WorkPtr WeftBackend::gather_into_tensor(at::Tensor& output, at::Tensor& input,
                                        const c10d::GatherOptions& opts) {
  MPI_Request r;
  check_tensor(input);
  check_rank(opts.rootRank, "the root");
  bool root = opts.rootRank == rank_;
  if (root) {
    check_tensor(output);
    check_same_type(input, output);
    TORCH_CHECK(output.numel() == input.numel() * size_, "weft: gather has ", output.numel(),
                " elements of output, expected ", size_, " times the ", input.numel(),
                " of input");
  }
  auto task = begin("gather_into_tensor", input, opts.timeout);
  calls_++;
  post(task,
       MPI_Igather_c(input.data_ptr(), bytes(input), MPI_BYTE, root ? output.data_ptr() : nullptr,
                     bytes(input), MPI_BYTE, static_cast<int>(opts.rootRank), comm_, &r),
       r);
  task->keep.push_back(input);
  if (root)
    task->outputs.push_back(output);
  return end(OpType::GATHER, task, opts.asyncOp);
}

WorkPtr WeftBackend::gather(TensorLists& outputs, Tensors& inputs,
                            const c10d::GatherOptions& opts) {
  const at::Tensor& in = only(inputs, "gather");
  MPI_Request r;
  check_rank(opts.rootRank, "the root");
  bool root = opts.rootRank == rank_;
  at::Tensor flat;
  TORCH_CHECK(root ? outputs.size() == 1 : outputs.empty() || outputs[0].empty(),
              "weft: gather takes a list of outputs at the root, and none elsewhere");
  auto task = begin("gather", in, opts.timeout);
  if (root) {
    check_list(outputs[0], size_, in, "outputs");
    for (auto& t : outputs[0])
      TORCH_CHECK(t.numel() == in.numel(), "weft: gather has outputs of ", t.numel(), " and ",
                  in.numel(), " elements");
    flat = flat_like(outputs[0]);
    task->outputs = outputs[0];
    auto outs = outputs[0];
    task->after.push_back([flat, outs] { unflatten(flat, outs); });
  }
  calls_++;
  post(task,
       MPI_Igather_c(in.data_ptr(), bytes(in), MPI_BYTE, root ? flat.data_ptr() : nullptr,
                     bytes(in), MPI_BYTE, static_cast<int>(opts.rootRank), comm_, &r),
       r);
  task->keep.push_back(in);
  return end(OpType::GATHER, task, opts.asyncOp);
}

WorkPtr WeftBackend::scatter(Tensors& outputs, TensorLists& inputs,
                             const c10d::ScatterOptions& opts) {
  const at::Tensor& out = only(outputs, "scatter");
  MPI_Request r;
  check_rank(opts.rootRank, "the root");
  bool root = opts.rootRank == rank_;
  at::Tensor flat;
  TORCH_CHECK(root ? inputs.size() == 1 : inputs.empty() || inputs[0].empty(),
              "weft: scatter takes a list of inputs at the root, and none elsewhere");
  auto task = begin("scatter", out, opts.timeout);
  if (root) {
    check_list(inputs[0], size_, out, "inputs");
    for (auto& t : inputs[0])
      TORCH_CHECK(t.numel() == out.numel(), "weft: scatter has inputs of ", t.numel(), " and ",
                  out.numel(), " elements");
    flat = flatten(inputs[0]);
    task->keep.push_back(flat);
  }
  calls_++;
  post(task,
       MPI_Iscatter_c(root ? flat.data_ptr() : nullptr, bytes(out), MPI_BYTE, out.data_ptr(),
                      bytes(out), MPI_BYTE, static_cast<int>(opts.rootRank), comm_, &r),
       r);
  task->outputs.push_back(out);
  return end(OpType::SCATTER, task, opts.asyncOp);
}

// ---- all to all ----

WorkPtr WeftBackend::alltoall_base(at::Tensor& output, at::Tensor& input,
                                   std::vector<int64_t>& out_rows, std::vector<int64_t>& in_rows,
                                   const c10d::AllToAllOptions& opts) {
  MPI_Request r;
  check_tensor(input);
  check_tensor(output);
  check_same_type(input, output);
  auto to = std::make_shared<Blocks>(blocks_of(input, in_rows, size_, "input"));
  auto from = std::make_shared<Blocks>(blocks_of(output, out_rows, size_, "output"));
  auto task = begin("all_to_all_single", input, opts.timeout);
  calls_++;
  post(task,
       MPI_Ialltoallv_c(input.data_ptr(), to->counts.data(), to->displs.data(), MPI_BYTE,
                        output.data_ptr(), from->counts.data(), from->displs.data(), MPI_BYTE,
                        comm_, &r),
       r);
  task->keep.push_back(input);
  task->outputs.push_back(output);
  task->arrays.insert(task->arrays.end(), {to, from});
  return end(OpType::ALLTOALL_BASE, task, opts.asyncOp);
}

WorkPtr WeftBackend::alltoall(Tensors& outputs, Tensors& inputs,
                              const c10d::AllToAllOptions& opts) {
  MPI_Request r;
  TORCH_CHECK(!inputs.empty(), "weft: all_to_all of no tensor");
  check_list(inputs, size_, inputs[0], "inputs");
  check_list(outputs, size_, inputs[0], "outputs");
  at::Tensor in = flatten(inputs), out = flat_like(outputs);
  auto to = std::make_shared<Blocks>(blocks_of(inputs));
  auto from = std::make_shared<Blocks>(blocks_of(outputs));
  auto task = begin("all_to_all", in, opts.timeout);
  calls_++;
  post(task,
       MPI_Ialltoallv_c(in.data_ptr(), to->counts.data(), to->displs.data(), MPI_BYTE,
                        out.data_ptr(), from->counts.data(), from->displs.data(), MPI_BYTE, comm_,
                        &r),
       r);
  task->keep.push_back(in);
  task->outputs = outputs;
  task->arrays.insert(task->arrays.end(), {to, from});
  Tensors outs = outputs;
  task->after.push_back([out, outs] { unflatten(out, outs); });
  return end(OpType::ALLTOALL, task, opts.asyncOp);
}

// ---- point to point ----

WorkPtr WeftBackend::send(Tensors& tensors, int to, int tag) {
  const at::Tensor& t = only(tensors, "send");
  MPI_Request r;
  check_rank(to, "the destination");
  auto task = begin("send", t, c10d::kUnsetTimeout);
  task->call += c10::str(" to rank ", to, " with tag ", tag);
  post(task, MPI_Isend_c(t.data_ptr(), bytes(t), MPI_BYTE, to, check_tag(tag), comm_, &r), r);
  task->keep.push_back(t);
  return end(OpType::SEND, task, true);
}

WorkPtr WeftBackend::receive(Tensors& tensors, int from, int tag, const char* call) {
  const at::Tensor& t = only(tensors, call);
  MPI_Request r;
  auto task = begin(call, t, c10d::kUnsetTimeout);
  task->call += from == MPI_ANY_SOURCE ? c10::str(" with tag ", tag)
                                       : c10::str(" from rank ", from, " with tag ", tag);
  post(task, MPI_Irecv_c(t.data_ptr(), bytes(t), MPI_BYTE, from, check_tag(tag), comm_, &r), r);
  task->outputs.push_back(t);
  return end(from == MPI_ANY_SOURCE ? OpType::RECVANYSOURCE : OpType::RECV, task, true);
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
  MPI_Request r;
  auto task = begin("barrier", {}, opts.timeout);
  calls_++;
  post(task, MPI_Ibarrier(comm_, &r), r);
  return end(OpType::BARRIER, task, opts.asyncOp);
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
    MPI_Request r;
    auto task = begin("monitored_barrier", {}, left());
    auto len = static_cast<int>(text->size());
    task->call += c10::str(receives ? ", from rank " : ", to rank ", peer);
    task->arrays.push_back(text);
    post(task,
         receives ? MPI_Irecv(text->data(), len, MPI_CHAR, peer, tag_max_, comm_, &r)
                  : MPI_Isend(text->data(), len, MPI_CHAR, peer, tag_max_, comm_, &r),
         r);
    return task;
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
