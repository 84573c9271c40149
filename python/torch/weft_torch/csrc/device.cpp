// SPDX-License-Identifier: BSD-3-Clause
// Lanes and operations on them; see device.hpp.
#include "device.hpp"

#include "world.hpp"

#include <algorithm>
#include <thread>

namespace weft {
namespace {

using c10::impl::VirtualGuardImpl;

constexpr std::chrono::microseconds kPollUs(50);  // of a host that waits for a device with a timeout

StreamHandle& stream_handle() {
  static auto* f = new StreamHandle;  // never destroyed: it belongs to the interpreter
  return *f;
}

}  // namespace

void lane_init(StreamHandle handle) { stream_handle() = std::move(handle); }

Lane::Lane(MPI_Comm over, c10::Device device)
    : stream(VirtualGuardImpl(device.type()).getStreamFromGlobalPool(device)) {
  c10::DeviceGuard here(device);
  MPI_Info info = MPI_INFO_NULL;
  auto value = stream_handle()(stream.id(), device.index(), static_cast<int64_t>(device.type()));
  check(MPI_Info_create(&info), "MPI_Info_create");
  MPI_Info_set(info, "type", "cudaStream_t");
  MPIX_Info_set_hex(info, "value", &value, sizeof value);
  int err = MPIX_Stream_create(info, &handle_);
  MPI_Info_free(&info);
  check(err, "MPIX_Stream_create");
  check(MPIX_Stream_comm_create(over, handle_, &comm), "MPIX_Stream_comm_create");
}

void Lane::close() {
  MPI_Comm_free(&comm);
  MPIX_Stream_free(&handle_);
}

c10::Stream Lane::current() const {
  return VirtualGuardImpl(stream.device_type()).getStream(stream.device());
}

void Lane::follow_current() const {
  c10::Event now(stream.device_type());
  now.record(current());
  now.block(stream);
}

void Lane::hold(const at::Tensor& t) const {
  VirtualGuardImpl(stream.device_type()).recordDataPtrOnStream(t.storage().data_ptr(), stream);
}

DeviceWork::DeviceWork(int rank, c10d::OpType type, std::shared_ptr<Task> task,
                       std::vector<Part> parts)
    : c10d::Work(rank, type), task_(std::move(task)), parts_(std::move(parts)) {
  bool receives = std::any_of(parts_.begin(), parts_.end(),
                              [](const Part& p) { return p.receive != MPI_REQUEST_NULL; });
  if (!receives)
    enqueue_rest();
}

// Under the lock, or before another thread knows the Work.
void DeviceWork::enqueue_rest() {
  if (!ends_.empty())
    return;
  for (auto& p : parts_) {
    if (p.receive == MPI_REQUEST_NULL)
      continue;
    MPI_Status status;
    int err = MPIX_Wait_enqueue(&p.receive, &status);
    if (err)
      check(err, task_->what().c_str());
    task_->source = status.MPI_SOURCE;
  }
  for (auto& p : parts_) {
    for (auto& t : p.tensors)
      p.lane->hold(t);
    p.tensors.clear();
    ends_.emplace_back(p.lane->stream.device_type());
    ends_.back().record(p.lane->stream);
  }
}

bool DeviceWork::query() {
  return std::all_of(ends_.begin(), ends_.end(), [](const c10::Event& e) { return e.query(); });
}

bool DeviceWork::isCompleted() {
  std::lock_guard<std::mutex> hold(lock_);
  enqueue_rest();
  return query();
}

bool DeviceWork::wait(Milliseconds timeout) {
  std::lock_guard<std::mutex> hold(lock_);
  auto until = std::chrono::steady_clock::now() + timeout;
  enqueue_rest();
  for (size_t i = 0; i < parts_.size(); i++)
    ends_[i].block(parts_[i].lane->current());
  if (timeout == kNoTimeout)
    return true;
  while (!query()) {
    if (std::chrono::steady_clock::now() >= until)
      task_->fail_late(timeout);
    std::this_thread::sleep_for(kPollUs);
  }
  return true;
}

// The future has an event for each of its devices, recorded when it is marked: on the first lane,
// which waits for the others.
c10::intrusive_ptr<c10::ivalue::Future> DeviceWork::getFuture() {
  std::lock_guard<std::mutex> hold(lock_);
  if (future_)
    return future_;
  enqueue_rest();
  const c10::Stream& first = parts_[0].lane->stream;
  for (auto& e : ends_)
    e.block(first);
  c10::StreamGuard guard(first);
  future_ = c10::make_intrusive<c10::ivalue::Future>(
      c10::ListType::create(c10::TensorType::get()), std::vector<c10::Device>{first.device()});
  future_->markCompleted(c10::IValue(task_->outputs));
  return future_;
}

int narrow(MPI_Count n) {
  TORCH_CHECK(n <= INT_MAX, "weft: ", n, " elements or bytes of a CUDA tensor are more than ",
              INT_MAX, " in one block; split the tensor");
  return static_cast<int>(n);
}

std::vector<int> narrow(const std::vector<MPI_Count>& list) {
  std::vector<int> out;
  for (MPI_Count n : list)
    out.push_back(narrow(n));
  return out;
}

}  // namespace weft
