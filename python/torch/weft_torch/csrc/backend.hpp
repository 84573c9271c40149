// SPDX-License-Identifier: BSD-3-Clause
// The back end "weft" of one process group: each operation becomes nonblocking calls of MPI on the
// group's communicator, or, for CUDA tensors, enqueued calls on a lane of the group.  Ranks call the
// operations of a group in one order, as with any back end.
#pragma once

#include "device.hpp"
#include "tensors.hpp"
#include "types.hpp"
#include "work.hpp"
#include "world.hpp"

#include <map>

#include <torch/csrc/distributed/c10d/Backend.hpp>

namespace weft {

using WorkPtr = c10::intrusive_ptr<c10d::Work>;

// An operation that is being started: the task, and the stream that is current meanwhile.
struct Start {
  std::shared_ptr<Task> task;
  std::shared_ptr<Lane> lane;  // of CUDA tensors
  std::unique_ptr<c10::StreamGuard> guard;
  Task* operator->() const { return task.get(); }
};

class WeftBackend : public c10d::Backend {
 public:
  // `ranks`: the world ranks of the group; none: all.
  WeftBackend(int rank, int size, std::vector<int64_t> ranks, const std::string& name,
              Milliseconds timeout);
  ~WeftBackend() override;

  const std::string getBackendName() const override { return "weft"; }
  c10::intrusive_ptr<Options> getBackendOptions() override { return options_; }
  void setTimeout(Milliseconds timeout) override { options_->timeout = timeout; }

  WorkPtr broadcast(Tensors& tensors, const c10d::BroadcastOptions& opts) override;
  WorkPtr allreduce(Tensors& tensors, const c10d::AllreduceOptions& opts) override;
  WorkPtr allreduce_coalesced(Tensors& tensors,
                              const c10d::AllreduceCoalescedOptions& opts) override;
  WorkPtr allreduce_sparse(Tensors& tensors, const c10d::AllreduceOptions& opts) override;
  WorkPtr reduce(Tensors& tensors, const c10d::ReduceOptions& opts) override;
  WorkPtr allgather(TensorLists& outputs, Tensors& inputs,
                    const c10d::AllgatherOptions& opts) override;
  WorkPtr _allgather_base(at::Tensor& output, at::Tensor& input,
                          const c10d::AllgatherOptions& opts) override;
  WorkPtr allgather_coalesced(TensorLists& outputs, Tensors& inputs,
                              const c10d::AllgatherOptions& opts) override;
  WorkPtr allgather_into_tensor_coalesced(Tensors& outputs, Tensors& inputs,
                                          const c10d::AllgatherOptions& opts) override;
  WorkPtr gather_into_tensor(at::Tensor& output, at::Tensor& input,
                             const c10d::GatherOptions& opts);
  WorkPtr gather(TensorLists& outputs, Tensors& inputs, const c10d::GatherOptions& opts) override;
  WorkPtr scatter(Tensors& outputs, TensorLists& inputs,
                  const c10d::ScatterOptions& opts) override;
  WorkPtr reduce_scatter(Tensors& outputs, TensorLists& inputs,
                         const c10d::ReduceScatterOptions& opts) override;
  WorkPtr _reduce_scatter_base(at::Tensor& output, at::Tensor& input,
                               const c10d::ReduceScatterOptions& opts) override;
  WorkPtr reduce_scatter_tensor_coalesced(Tensors& outputs, Tensors& inputs,
                                          const c10d::ReduceScatterOptions& opts) override;
  WorkPtr alltoall_base(at::Tensor& output, at::Tensor& input, std::vector<int64_t>& out_rows,
                        std::vector<int64_t>& in_rows, const c10d::AllToAllOptions& opts) override;
  WorkPtr alltoall(Tensors& outputs, Tensors& inputs, const c10d::AllToAllOptions& opts) override;
  WorkPtr send(Tensors& tensors, int to, int tag) override;
  WorkPtr recv(Tensors& tensors, int from, int tag) override;
  WorkPtr recvAnysource(Tensors& tensors, int tag) override;
  WorkPtr barrier(const c10d::BarrierOptions& opts) override;
  void monitoredBarrier(const c10d::BarrierOptions& opts, bool all_ranks) override;

  bool supportsCoalescing() const override { return true; }
  void startCoalescing() override;
  WorkPtr endCoalescing() override;
  uint64_t getSequenceNumberForGroup() override { return calls_; }
  void setSequenceNumberForGroup() override {}
  void abort() override;
  void shutdown() override;
  // split_group: collective over the ranks of this group that are in the new one.
  bool supportsSplitting() const override { return true; }
  bool isInitialized() { return true; }  // virtual in newer torch only
  c10::intrusive_ptr<Backend> split(const c10::intrusive_ptr<c10d::Store>& store,
                                    const std::vector<int>& ranks,
                                    const c10::intrusive_ptr<Options>& opts) override;

 private:
  std::vector<int64_t> ranks_;
  c10::intrusive_ptr<Options> options_;
  std::shared_ptr<Group> group_;
  MPI_Comm comm_ = MPI_COMM_NULL;
  uint64_t calls_ = 0;  // collectives so far
  int tag_max_ = 0;
  bool coalescing_ = false;
  std::shared_ptr<Task> coalesced_;
  // A message of a CUDA tensor.
  struct Message {
    at::Tensor data;
    int peer, tag;
    bool sends;
  };
  std::vector<Message> batch_;      // of the coalesced operations
  std::vector<Part> batch_parts_;   // what they already have on lanes
  struct Pair {
    MPI_Comm comm = MPI_COMM_NULL;
    std::shared_ptr<Lane> up, down;  // messages to the higher rank, to the lower rank
  };
  std::map<c10::DeviceIndex, std::shared_ptr<Lane>> lanes_;  // of collectives
  std::map<std::pair<c10::DeviceIndex, int>, Pair> pairs_;   // by peer

  Start begin(const char* call, const at::Tensor& data, Milliseconds timeout);
  WorkPtr end(c10d::OpType type, Start& s, bool async);
  // Makes a nonblocking call of MPI; an enqueued one if the operation has a lane.  A call without
  // its last arguments: the communicator and the request are added here.
  template <class Host>
  void post_host(const Start& s, Host host);
  template <class Host, class Device>
  void post(const Start& s, Host host, Device device);
  WorkPtr finish(c10d::OpType type, Start& s);
  const std::shared_ptr<Lane>& lane_of(c10::Device device);
  Pair& pair_of(c10::Device device, int peer);
  WorkPtr message(Message m, const char* call, c10d::OpType type);
  std::vector<Part> exchange(std::vector<Message> messages, const std::shared_ptr<Task>& task);
  WorkPtr complete(c10d::OpType type, const std::shared_ptr<Task>& like);
  void check_open(const char* call) const;
  void check_rank(int64_t rank, const char* what) const;
  int check_tag(int tag) const;
  WorkPtr receive(Tensors& tensors, int from, int tag, const char* call);
  void start_allreduce(const Start& s, at::Tensor t, const c10d::ReduceOp& op);
  void start_allgather(const Start& s, const at::Tensor& out, const at::Tensor& in);
  void start_reduce_scatter(const Start& s, const at::Tensor& out, at::Tensor in,
                            const c10d::ReduceOp& op);
  void start_allgather_list(const Start& s, Tensors& outs, const at::Tensor& in);
  void start_alltoall(const Start& s, const at::Tensor& in, const at::Tensor& out);
  void start_alltoallv(const Start& s, const at::Tensor& in, const at::Tensor& out,
                       Blocks to_ranks, Blocks from_ranks);
  void start_gather(const Start& s, const at::Tensor& in, void* out, int root);
};

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

}  // namespace weft
