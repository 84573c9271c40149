// SPDX-License-Identifier: BSD-3-Clause
// Waiting for operations, and the thread that makes progress while the program does something else;
// see work.hpp.
#include "work.hpp"

#include "world.hpp"

#include <algorithm>
#include <c10/core/InferenceMode.h>
#include <condition_variable>
#include <thread>

namespace weft {
namespace {

using Clock = std::chrono::steady_clock;

constexpr Milliseconds kForever = std::chrono::hours(24 * 365);
// After a timeout, for the other ranks of the group to say what they wait for: their timeouts begin
// when their operations do, so ranks that are later than this are named as not waiting.
constexpr Milliseconds kReports(1000);

bool is_limit(Milliseconds t) { return t.count() > 0 && t < kForever; }

// ---- requests that end a wait early ----

int guard_query(void*, MPI_Status* status) {
  MPI_Status_set_elements(status, MPI_BYTE, 0);
  MPI_Status_set_cancelled(status, 0);
  status->MPI_SOURCE = status->MPI_TAG = MPI_UNDEFINED;
  return MPI_SUCCESS;
}
int guard_free(void*) { return MPI_SUCCESS; }
int guard_cancel(void*, int) { return MPI_SUCCESS; }

MPI_Request guard_start() {
  MPI_Request r;
  check(MPI_Grequest_start(guard_query, guard_free, guard_cancel, nullptr, &r),
        "MPI_Grequest_start");
  return r;
}

void guard_end(MPI_Request* r) {
  MPI_Grequest_complete(*r);
  MPI_Request_free(r);
}

class Guard;

struct Watch {
  std::mutex lock;
  std::condition_variable news;   // an earlier deadline, an abort, the end
  std::condition_variable ended;  // a handed task is done, or an abort
  std::vector<Guard*> guards;     // of waits in progress
  std::vector<MPI_Request> spare;
  Deadline next = Deadline::max();  // when the thread looks again
  std::thread thread;
  bool started = false, stop = false;
};

Watch& watch() {
  static auto* w = new Watch;  // never destroyed: threads may outlive static objects
  return *w;
}

void run_watch();

// Completes its request at the deadline, or when the group is aborted.
class Guard {
 public:
  Guard(Deadline until, const Group& group) : until_(until), group_(group) {
    Watch& w = watch();
    std::lock_guard<std::mutex> hold(w.lock);
    if (w.spare.empty())
      w.spare.push_back(guard_start());
    request = w.spare.back();
    w.spare.pop_back();
    w.guards.push_back(this);
    if (!w.started)
      w.thread = std::thread(run_watch);
    w.started = true;
    if (until_ < w.next || group_.aborted)
      w.news.notify_one();
  }
  ~Guard() {
    Watch& w = watch();
    std::lock_guard<std::mutex> hold(w.lock);
    w.guards.erase(std::find(w.guards.begin(), w.guards.end(), this));
    if (!fired_)
      w.spare.push_back(request);
    else if (request != MPI_REQUEST_NULL)
      MPI_Request_free(&request);
  }
  // Under the lock of the watch.
  Deadline look(Deadline now) {
    if (!fired_ && (until_ <= now || group_.aborted)) {
      fired_ = true;
      MPI_Grequest_complete(request);
    }
    return fired_ ? Deadline::max() : until_;
  }
  MPI_Request request;

 private:
  Deadline until_;
  const Group& group_;
  bool fired_ = false;
};

void run_watch() {
  Watch& w = watch();
  std::unique_lock<std::mutex> hold(w.lock);
  while (!w.stop) {
    w.next = Clock::now() + kForever;
    for (Guard* g : w.guards)
      w.next = std::min(w.next, g->look(Clock::now()));
    w.news.wait_until(hold, w.next);
  }
}

}  // namespace

void watch_abort() {
  Watch& w = watch();
  std::lock_guard<std::mutex> hold(w.lock);
  w.news.notify_one();
  w.ended.notify_all();
}

// ---- the progress thread ----

namespace {

struct Progress {
  std::mutex lock;
  std::condition_variable news;
  std::vector<std::shared_ptr<Task>> handed;  // not yet seen by the thread
  unsigned open = 0;
  MPI_Request wake = MPI_REQUEST_NULL;  // ends the thread's wait
  bool woken = false;                   // `wake` has been completed
  std::thread thread;
  bool started = false, stop = false;

  // Under the lock: the thread looks at the members above again.
  void notify() {
    if (!started && !stop) {
      started = true;
      thread = std::thread(&Progress::run, this);
    }
    if (wake != MPI_REQUEST_NULL && !woken) {
      woken = true;
      MPI_Grequest_complete(wake);
    }
    news.notify_one();
  }
  // False: the thread is to end.
  bool prepare(std::vector<std::shared_ptr<Task>>* mine) {
    std::unique_lock<std::mutex> hold(lock);
    for (;;) {
      mine->insert(mine->end(), handed.begin(), handed.end());
      handed.clear();
      if (stop)
        return false;
      if (open || !mine->empty())
        break;
      news.wait(hold);
    }
    if (wake == MPI_REQUEST_NULL) {
      wake = guard_start();
      woken = false;
    }
    return true;
  }
  void run();
};

Progress& progress() {
  static auto* p = new Progress;
  return *p;
}

void Progress::run() {
  std::vector<std::shared_ptr<Task>> mine;
  std::vector<MPI_Request> all;
  std::vector<std::pair<size_t, size_t>> from;  // task and its request, for all but the first
  while (prepare(&mine)) {
    all.assign(1, wake);
    from.clear();
    for (size_t t = 0; t < mine.size(); t++)
      for (size_t i = 0; i < mine[t]->requests.size(); i++)
        if (mine[t]->requests[i] != MPI_REQUEST_NULL) {
          all.push_back(mine[t]->requests[i]);
          from.emplace_back(t, i);
        }
    MPI_Status status;
    int i = 0;
    int err = MPI_Waitany(static_cast<int>(all.size()), all.data(), &i, &status);
    if (i <= 0) {
      std::lock_guard<std::mutex> hold(lock);
      wake = MPI_REQUEST_NULL;
      continue;
    }
    auto [t, r] = from[i - 1];
    mine[t]->request_ended(r, err, status.MPI_SOURCE);
    if (mine[t]->is_done()) {
      mine[t] = mine.back();
      mine.pop_back();
    }
  }
  if (wake != MPI_REQUEST_NULL)
    woken ? MPI_Request_free(&wake) : (guard_end(&wake), 0);
}

}  // namespace

void progress_open(Task& task) {
  Progress& p = progress();
  std::lock_guard<std::mutex> hold(p.lock);
  task.open = true;
  if (!p.open++)
    p.notify();
}

static void progress_close(Task& task) {
  Progress& p = progress();
  std::lock_guard<std::mutex> hold(p.lock);
  if (task.open && !--p.open)
    p.notify();
  task.open = false;
}

void progress_stop() {
  Progress& p = progress();
  Watch& w = watch();
  {
    std::lock_guard<std::mutex> hold(p.lock);
    p.stop = true;
    p.notify();
  }
  {
    std::lock_guard<std::mutex> hold(w.lock);
    w.stop = true;
    w.news.notify_one();
  }
  if (p.started)
    p.thread.join();
  if (w.started)
    w.thread.join();
  for (auto& r : w.spare)
    guard_end(&r);
  w.spare.clear();
}

// ---- tasks ----

std::string Task::what() const {
  return c10::str(call, " in group ", group->name, " on rank ", group->rank, " of ", group->size);
}

void Task::mark(const c10::intrusive_ptr<c10::ivalue::Future>& f) const {
  if (error)
    f->setError(error);
  else
    f->markCompleted(c10::IValue(outputs));
}

// In inference mode: any thread may be here, and the tensors may be inference tensors, or leaves that
// need gradients.
void Task::complete_data() {
  c10::InferenceMode mode;
  for (auto& step : after)
    step();
}

void Task::finish(int err) {
  c10::intrusive_ptr<c10::ivalue::Future> f;
  try {
    if (err)
      check(err, what().c_str());
    complete_data();
  } catch (...) {
    error = std::current_exception();
    if (err)
      world_spoil();
  }
  keep.clear();
  arrays.clear();
  after.clear();
  if (open)
    progress_close(*this);
  {
    std::lock_guard<std::mutex> hold(lock);
    done.store(true, std::memory_order_release);
    f = future;
  }
  if (handed) {
    std::lock_guard<std::mutex> hold(watch().lock);
    watch().ended.notify_all();
  }
  if (f)
    mark(f);
}

void Task::request_ended(size_t i, int err, int from) {
  source = from;
  if (!err)
    requests[i] = MPI_REQUEST_NULL;
  if (err || std::all_of(requests.begin(), requests.end(),
                         [](MPI_Request r) { return r == MPI_REQUEST_NULL; }))
    finish(err);
}

// Holding `owner`.
bool Task::test() {
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
  finish(err);
  return true;
}

bool Task::poll() {
  std::unique_lock<std::mutex> hold(owner, std::try_to_lock);
  if (!hold.owns_lock() || handed || is_done())  // else another thread finds the end
    return is_done();
  return test();
}

void Task::hand_over() {
  std::lock_guard<std::mutex> hold(owner);
  if (handed || is_done() || test())
    return;
  Progress& p = progress();
  std::lock_guard<std::mutex> list(p.lock);
  if (p.stop)
    return;
  handed = true;
  p.handed.push_back(shared_from_this());
  p.notify();
}

c10::intrusive_ptr<c10::ivalue::Future> Task::get_future() {
  hand_over();
  std::lock_guard<std::mutex> hold(lock);
  if (!future) {
    future = c10::make_intrusive<c10::ivalue::Future>(c10::ListType::create(c10::TensorType::get()));
    if (is_done())
      mark(future);
  }
  return future;
}

// Holding `owner`.
void Task::wait_directly(Deadline until) {
  Guard guard(until, *group);
  std::vector<MPI_Request> all(requests);
  all.push_back(MPI_REQUEST_NULL);
  while (!is_done()) {
    MPI_Status status;
    int i = 0;
    all.back() = guard.request;
    int err = MPI_Waitany(static_cast<int>(all.size()), all.data(), &i, &status);
    guard.request = all.back();
    if (i == static_cast<int>(requests.size()))
      return;
    request_ended(i, err, status.MPI_SOURCE);
  }
}

bool Task::ends_within(Milliseconds limit) {
  auto until = Clock::now() + (is_limit(limit) ? limit : kForever);
  {
    std::lock_guard<std::mutex> hold(owner);
    if (!handed && !is_done() && !test())
      wait_directly(until);
  }
  if (handed) {
    Watch& w = watch();
    std::unique_lock<std::mutex> hold(w.lock);
    w.ended.wait_until(hold, until, [this] { return is_done() || group->aborted; });
  }
  return is_done();
}

void Task::wait(Milliseconds limit) {
  if (!is_limit(limit))
    limit = timeout;
  if (!ends_within(limit))
    fail_late(limit);
  if (error)
    std::rethrow_exception(error);
}

// ---- who waits for whom ----

namespace {

std::string names(const std::vector<int>& ranks) {
  std::string text;
  for (size_t i = 0; i < ranks.size() && i < 8; i++)
    text += c10::str(i ? ", " : "", ranks[i]);
  return text + (ranks.size() > 8 ? " and others" : "");
}

// Each rank that is late writes what it waits for into the store, and reads what the others wrote.
std::string waits_of_others(const Task& task) {
  const Group& g = *task.group;
  std::vector<std::pair<std::string, std::vector<int>>> waits;
  std::vector<int> silent;
  auto key = [](int rank) { return c10::str("weft_waits/", rank); };
  try {
    auto until = Clock::now() + kReports;
    g.store->set(key(g.rank), std::vector<uint8_t>(task.call.begin(), task.call.end()));
    for (int r = 0; r < g.size; r++) {
      if (r == g.rank)
        continue;
      while (!g.store->check({key(r)}) && Clock::now() < until)
        std::this_thread::sleep_for(kReports / 50);
      if (!g.store->check({key(r)})) {
        silent.push_back(r);
        continue;
      }
      auto bytes = g.store->get(key(r));
      std::string call(bytes.begin(), bytes.end());
      auto same = std::find_if(waits.begin(), waits.end(),
                               [&call](auto& w) { return w.first == call; });
      if (same == waits.end())
        waits.push_back({call, {r}});
      else
        same->second.push_back(r);
    }
  } catch (const std::exception&) {
    return " The store of the group does not answer, so what the other ranks do is not known.";
  }
  std::string text;
  for (auto& [call, ranks] : waits)
    text += c10::str(ranks.size() > 1 ? " Ranks " : " Rank ", names(ranks),
                     ranks.size() > 1 ? " wait in " : " waits in ", call, ".");
  if (!silent.empty())
    text += c10::str(silent.size() > 1 ? " Ranks " : " Rank ", names(silent),
                     silent.size() > 1 ? " have" : " has",
                     " reported no wait that timed out: late, ended, or busy elsewhere.");
  return text;
}

}  // namespace

void Task::fail_late(Milliseconds limit) {
  world_spoil();
  if (group->aborted)
    C10_THROW_ERROR(DistBackendError, c10::str("weft: ", what(), " was aborted."));
  C10_THROW_ERROR(DistBackendError,
                  c10::str("weft: ", what(), " is not complete after ", limit.count(),
                           " ms (timeout).", waits_of_others(*this)));
}

// ---- what torch sees ----

WeftWork::~WeftWork() {
  if (!task_->is_done())
    task_->hand_over();
}

int WeftWork::sourceRank() const {
  TORCH_CHECK(task_->is_done() && task_->source >= 0,
              "weft: the source is known once a receive is complete: ", task_->what());
  return task_->source;
}

bool WeftWork::wait(Milliseconds timeout) {
  task_->wait(timeout);
  return true;
}

}  // namespace weft
