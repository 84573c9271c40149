// SPDX-License-Identifier: BSD-3-Clause
// An operation in progress.  The task holds the requests of MPI and the tensors that they use; the
// Work that torch sees refers to it.  A task lives until its requests have ended, also if the
// program drops the Work.
#pragma once

#include <ATen/ATen.h>
#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <mpi.h>
#include <mutex>
#include <string>
#include <torch/csrc/distributed/c10d/Work.hpp>
#include <vector>

namespace weft {

using Milliseconds = std::chrono::milliseconds;

struct Task {
  // Constant once started.
  std::vector<at::Tensor> outputs, keep;  // results; other tensors that MPI uses
  std::vector<std::shared_ptr<void>> arrays;  // counts and displacements that MPI reads
  std::vector<std::function<void()>> after;   // when the data is there: copies, divisions
  Milliseconds timeout{0};
  std::string what;  // "allreduce of 4096 bytes in group 0 on rank 1"
  std::shared_ptr<std::atomic<bool>> aborted;  // of the group

  std::vector<MPI_Request> requests;
  int source = -1;  // of the last message received
  std::exception_ptr error;

  // Asks MPI, and finishes the task if its requests have ended.  Any thread.
  bool poll();
  // Waits; throws the task's error, a timeout or an abort.
  void wait(Milliseconds limit);
  bool is_done() const { return done.load(std::memory_order_acquire); }
  c10::intrusive_ptr<c10::ivalue::Future> get_future();

 private:
  std::mutex lock;
  std::atomic<bool> done{false};
  c10::intrusive_ptr<c10::ivalue::Future> future;
  void fail_late(Milliseconds limit);
  void mark(const c10::intrusive_ptr<c10::ivalue::Future>& f) const;
};

// Lets a thread poll the task: the program may compute, wait for something else or drop the Work.
void progress_add(const std::shared_ptr<Task>& task);
void progress_stop();

class WeftWork : public c10d::Work {
 public:
  WeftWork(int rank, c10d::OpType type, std::shared_ptr<Task> task)
      : c10d::Work(rank, type), task_(std::move(task)) {}
  ~WeftWork() override;
  bool isCompleted() override { return task_->is_done() || task_->poll(); }
  bool isSuccess() const override { return task_->is_done() && !task_->error; }
  std::exception_ptr exception() const override {
    return task_->is_done() ? task_->error : nullptr;
  }
  int sourceRank() const override;
  std::vector<at::Tensor> result() override { return task_->outputs; }
  void synchronize() override { wait(); }
  bool wait(Milliseconds timeout = kNoTimeout) override;
  c10::intrusive_ptr<c10::ivalue::Future> getFuture() override { return task_->get_future(); }
  const std::shared_ptr<Task>& task() const { return task_; }

 private:
  std::shared_ptr<Task> task_;
};

}  // namespace weft
