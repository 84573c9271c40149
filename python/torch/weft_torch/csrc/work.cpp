// SPDX-License-Identifier: BSD-3-Clause
// Waiting for operations, and the thread that makes progress while the program does something else;
// see work.hpp.
#include "work.hpp"

#include "world.hpp"

#include <condition_variable>
#include <sched.h>
#include <thread>

namespace weft {
namespace {

using Clock = std::chrono::steady_clock;

// A wait polls, yields, and sleeps only after this many polls, about a millisecond: the sleep
// delays the end of the wait by its length.
constexpr unsigned kPolls = 4000;
constexpr Milliseconds kForever = std::chrono::hours(24 * 365);

void pause(unsigned n) {
  if (n < kPolls)
    sched_yield();
  else
    std::this_thread::sleep_for(std::chrono::microseconds(n < 2 * kPolls ? 30 : 200));
}

bool is_limit(Milliseconds t) { return t.count() > 0 && t < kForever; }

}  // namespace

// ---- tasks ----

void Task::mark(const c10::intrusive_ptr<c10::ivalue::Future>& f) const {
  if (error)
    f->setError(error);
  else
    f->markCompleted(c10::IValue(outputs));
}

bool Task::poll() {
  c10::intrusive_ptr<c10::ivalue::Future> f;
  {
    std::unique_lock<std::mutex> hold(lock, std::try_to_lock);
    if (!hold.owns_lock() || is_done())  // else another thread asks at this moment
      return is_done();
    int err = MPI_SUCCESS;
    bool all = true;
    for (size_t i = 0; i < requests.size() && !err; i++) {
      MPI_Status status;
      int flag = 0;
      if (requests[i] == MPI_REQUEST_NULL)
        continue;
      err = MPI_Test(&requests[i], &flag, &status);
      all = all && flag;
      if (!err && flag)
        source = status.MPI_SOURCE;
    }
    if (!err && !all)
      return false;
    try {
      check(err, what.c_str());
      for (auto& step : after)
        step();
    } catch (...) {
      error = std::current_exception();
      if (err)
        world_spoil();
    }
    keep.clear();
    arrays.clear();
    after.clear();
    done.store(true, std::memory_order_release);
    f = future;
  }
  if (f)
    mark(f);
  return true;
}

c10::intrusive_ptr<c10::ivalue::Future> Task::get_future() {
  std::lock_guard<std::mutex> hold(lock);
  if (!future) {
    future = c10::make_intrusive<c10::ivalue::Future>(c10::ListType::create(c10::TensorType::get()));
    if (is_done())
      mark(future);
  }
  return future;
}

void Task::fail_late(Milliseconds limit) {
  world_spoil();
  C10_THROW_ERROR(
      DistBackendError,
      c10::str("weft: ", what, *aborted ? " was aborted" : " is not complete after ",
               *aborted ? std::string() : std::to_string(limit.count()) + " ms (timeout)",
               ". Another rank is late, has ended, or has made other calls on this group."));
}

void Task::wait(Milliseconds limit) {
  if (!is_limit(limit))
    limit = timeout;
  auto until = Clock::now() + (is_limit(limit) ? limit : kForever);
  for (unsigned n = 0; !poll(); n++) {
    if (*aborted || (n % 64 == 63 && Clock::now() > until))
      fail_late(limit);
    pause(n);
  }
  if (error)
    std::rethrow_exception(error);
}

WeftWork::~WeftWork() {
  if (!task_->poll())
    progress_add(task_);
}

int WeftWork::sourceRank() const {
  TORCH_CHECK(task_->is_done() && task_->source >= 0,
              "weft: the source is known once a receive is complete: ", task_->what);
  return task_->source;
}

bool WeftWork::wait(Milliseconds timeout) {
  task_->wait(timeout);
  return true;
}

// ---- the thread ----

namespace {

struct Progress {
  std::mutex lock;
  std::condition_variable news;
  std::vector<std::shared_ptr<Task>> tasks;
  std::thread thread;
  bool started = false, stop = false, asleep = false;
};

Progress& progress() {
  static auto* p = new Progress;
  return *p;
}

// Polls often while a callback may wait for a task, and sleeps for good after kQuiet without any.
constexpr auto kPause = std::chrono::microseconds(50);
constexpr auto kQuiet = Milliseconds(100);

void run_progress() {
  Progress& p = progress();
  auto busy = Clock::now();
  std::vector<std::shared_ptr<Task>> mine;
  for (;;) {
    {
      std::unique_lock<std::mutex> hold(p.lock);
      mine.insert(mine.end(), p.tasks.begin(), p.tasks.end());
      p.tasks.clear();
      if (p.stop)
        return;
      if (!mine.empty()) {
        busy = Clock::now();
      } else if (Clock::now() - busy > kQuiet) {
        p.asleep = true;
        p.news.wait(hold, [&p] { return p.stop || !p.tasks.empty(); });
        p.asleep = false;
        continue;
      }
    }
    for (size_t i = 0; i < mine.size();)
      if (mine[i]->poll())
        mine[i] = mine.back(), mine.pop_back();
      else
        i++;
    std::this_thread::sleep_for(kPause);
  }
}

}  // namespace

void progress_add(const std::shared_ptr<Task>& task) {
  Progress& p = progress();
  std::lock_guard<std::mutex> hold(p.lock);
  if (p.stop)
    return;
  p.tasks.push_back(task);
  if (!p.started)
    p.thread = std::thread(run_progress);
  p.started = true;
  if (p.asleep)
    p.news.notify_one();
}

void progress_stop() {
  Progress& p = progress();
  {
    std::lock_guard<std::mutex> hold(p.lock);
    p.stop = true;
    p.news.notify_one();
  }
  if (p.started)
    p.thread.join();
}

}  // namespace weft
