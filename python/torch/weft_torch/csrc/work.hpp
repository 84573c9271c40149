// SPDX-License-Identifier: BSD-3-Clause
// An operation in progress.  The task holds the requests of MPI and the tensors that they use; the
// Work that torch sees refers to it.  A task lives until its requests have ended, also if the
// program drops the Work.
//
// All waits are MPI_Waitany, so polling, yielding and sleeping are the library's.  A task's requests
// belong to the thread that waits for it or tests it; a task whose end nothing else would find (its
// Work was dropped, or something waits for its future) is handed to the progress thread for good.
// What ends a wait early, a timeout or an abort, is a generalized request that a watch completes.
#pragma once

#include <ATen/ATen.h>
#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <mpi.h>
#include <mutex>
#include <string>
#include <torch/csrc/distributed/c10d/Store.hpp>
#include <torch/csrc/distributed/c10d/Work.hpp>
#include <vector>

namespace weft {

using Milliseconds = std::chrono::milliseconds;
using Deadline = std::chrono::steady_clock::time_point;

// What the operations of a process group share.
struct Group {
  std::string name;
  int rank, size;
  c10::intrusive_ptr<c10d::Store> store;  // tells ranks what the others wait for
  std::atomic<bool> aborted{false};
};

struct Task : std::enable_shared_from_this<Task> {
  // Constant once started.
  std::vector<at::Tensor> outputs, keep;  // results; other tensors that MPI uses
  std::vector<std::shared_ptr<void>> arrays;  // counts and displacements that MPI reads
  std::vector<std::function<void()>> after;   // when the data is there: copies, divisions
  Milliseconds timeout{0};
  std::string call;  // "allreduce of 4096 bytes"
  std::shared_ptr<Group> group;
  bool open = false;  // counted in progress_open()

  std::vector<MPI_Request> requests;  // of the thread that holds `owner`
  int source = -1;                    // of the last message received
  std::exception_ptr error;           // constant once done

  // "allreduce of 4096 bytes in group 0 on rank 1 of 2"
  std::string what() const;
  // Asks MPI, and finishes the task if its requests have ended.  Any thread.
  bool poll();
  // Waits; false: a timeout or an abort.
  bool ends_within(Milliseconds limit);
  // The same, and throws the task's error, a timeout or an abort.
  void wait(Milliseconds limit);
  // Throws what a timeout or an abort is, with the waits of the other ranks.
  [[noreturn]] void fail_late(Milliseconds limit);
  bool is_done() const { return done.load(std::memory_order_acquire); }
  c10::intrusive_ptr<c10::ivalue::Future> get_future();
  // Gives the requests to the progress thread, unless the task is done.
  void hand_over();
  // What `after` has.
  void complete_data();
  // The progress thread has seen the end of requests[i].
  void request_ended(size_t i, int err, int from);

 private:
  std::mutex owner;  // of the requests
  std::atomic<bool> handed{false}, done{false};
  std::mutex lock;  // of the future, and of becoming done
  c10::intrusive_ptr<c10::ivalue::Future> future;
  bool test();
  void wait_directly(Deadline until);
  void finish(int err);
  void mark(const c10::intrusive_ptr<c10::ivalue::Future>& f) const;
};

// While tasks are open, the progress thread keeps MPI going, so that messages and collectives
// advance while the program computes.
void progress_open(Task& task);
void progress_stop();
// Looks at the waits again: a group has been aborted.
void watch_abort();

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
