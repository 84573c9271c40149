// SPDX-License-Identifier: BSD-3-Clause
// Collectives; see backend.hpp.  Data that is only moved goes as bytes, so every dtype of torch can
// be moved.  Lists of tensors go through one flat tensor.
#include "backend.hpp"

namespace weft {

using c10d::OpType;

namespace {

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
  s->keep.push_back(t);
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
  s->outputs.push_back(t);
  return end(OpType::ALLREDUCE, s, opts.asyncOp);
}

// On the CPU as one flat tensor, as Gloo has it: one call, and a tensor may be there twice.  On a
// device each by itself, as NCCL has it, without the memory for a copy.
WorkPtr WeftBackend::allreduce_coalesced(Tensors& tensors,
                                         const c10d::AllreduceCoalescedOptions& opts) {
  TORCH_CHECK(!tensors.empty(), "weft: allreduce_coalesced of no tensor");
  for (auto& t : tensors) {
    check_tensor(t);
    check_alike(t, tensors[0]);
  }
  Start s = begin("allreduce_coalesced", tensors[0], opts.timeout);
  if (s.lane) {
    for (auto& t : tensors)
      start_allreduce(s, t, opts.reduceOp);
  } else {
    at::Tensor flat = flatten(tensors);
    start_allreduce(s, flat, opts.reduceOp);
    s->after.push_back([flat, list = tensors] { unflatten(flat, list); });
  }
  s->outputs.insert(s->outputs.end(), tensors.begin(), tensors.end());
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

}  // namespace weft
