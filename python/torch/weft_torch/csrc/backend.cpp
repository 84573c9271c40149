// SPDX-License-Identifier: BSD-3-Clause
// The group, the start and the end of operations, lanes; see backend.hpp.
#include "backend.hpp"

#include <algorithm>

namespace weft {

using c10d::OpType;

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

void WeftBackend::check_open(const char* call) const {
  TORCH_CHECK(comm_ != MPI_COMM_NULL && !group_->aborted, "weft: ", call, " on group ",
              group_->name, ", which was ", group_->aborted ? "aborted" : "destroyed");
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
  check_open(call);
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
  s->complete_data();
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

}  // namespace weft
