// SPDX-License-Identifier: BSD-3-Clause
// Communication of CUDA tensors by enqueued calls of MPI.  An enqueued call runs on the stream of
// its communicator, so a group has streams of its own, as with NCCL: the stream waits for torch's
// current stream when an operation begins, and Work.wait() makes the then current stream wait for
// the operation.  The host waits for no device.
//
// Streams and events are those of c10, which has an implementation for each kind of device, so this
// needs no header or library of CUDA.
#pragma once

#include "work.hpp"

#include <c10/core/Event.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>

namespace weft {

// The native handle of a stream of c10: an answer of Python, because not every version of c10 has
// one for CUDA.
using StreamHandle = std::function<uintptr_t(int64_t stream, int64_t device, int64_t type)>;
void lane_init(StreamHandle handle);

// A stream of torch's pool, and the communicator whose enqueued calls it orders.
class Lane {
 public:
  // Collective over `over`.
  Lane(MPI_Comm over, c10::Device device);
  Lane(const Lane&) = delete;
  Lane& operator=(const Lane&) = delete;
  // Work that is on the stream still ends.
  void close();
  // Later work on the lane waits for what is now on torch's current stream.
  void follow_current() const;
  c10::Stream current() const;
  // The memory is not used again before what is now on the lane has ended.
  void hold(const at::Tensor& t) const;

  const c10::Stream stream;
  MPI_Comm comm = MPI_COMM_NULL;

 private:
  MPIX_Stream handle_ = MPIX_STREAM_NULL;
};

// What an operation has on a lane.  A receive is matched when it is called, and goes to the stream
// when it is waited for, because that needs the sender's call.
struct Part {
  std::shared_ptr<Lane> lane;
  std::vector<at::Tensor> tensors;
  MPI_Request receive = MPI_REQUEST_NULL;
};

class DeviceWork : public c10d::Work {
 public:
  DeviceWork(int rank, c10d::OpType type, std::shared_ptr<Task> task, std::vector<Part> parts);
  bool isCompleted() override;
  bool isSuccess() const override { return true; }
  int sourceRank() const override { return task_->source; }
  std::vector<at::Tensor> result() override { return task_->outputs; }
  void synchronize() override { wait(); }
  // With a timeout, the host waits, too.
  bool wait(Milliseconds timeout = kNoTimeout) override;
  c10::intrusive_ptr<c10::ivalue::Future> getFuture() override;

 private:
  std::shared_ptr<Task> task_;
  std::mutex lock_;  // of the following
  std::vector<Part> parts_;
  std::vector<c10::Event> ends_;  // of each part
  c10::intrusive_ptr<c10::ivalue::Future> future_;
  void enqueue_rest();
  bool query();
};

// Counts of enqueued calls are int; for those of more elements, MPI has no call.
int narrow(MPI_Count n);
std::vector<int> narrow(const std::vector<MPI_Count>& list);

}  // namespace weft
