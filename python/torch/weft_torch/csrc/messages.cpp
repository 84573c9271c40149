// SPDX-License-Identifier: BSD-3-Clause
// Messages and barriers; see backend.hpp.
#include "backend.hpp"

#include <algorithm>

namespace weft {

using c10d::OpType;

constexpr size_t kVerdict = 256;
// Rank 0 says after its own timeout who is missing; this long after, the others no longer wait.
constexpr Milliseconds kVerdictLate(2000);

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
  check_open(call);
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
