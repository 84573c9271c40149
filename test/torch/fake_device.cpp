// SPDX-License-Identifier: BSD-3-Clause
// A CUDA device for torch on a machine without one: streams, events and memory of the fake driver
// (test/fake/gpu), behind the interface by which c10 reaches any device.  Kernels there are none, so
// tests can create, fill, communicate and read tensors.  Of one process and its main thread.
#include <ATen/ATen.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <torch/csrc/utils/pybind.h>

#include <dlfcn.h>
#include <map>

namespace {

using Handle = void*;
using Address = unsigned long long;

template <class... Args>
void cu(const char* name, Args... args) {
  static Handle lib = dlopen("libcuda.so.1", RTLD_NOW);
  auto* f = reinterpret_cast<int (*)(Args...)>(dlsym(lib, name));
  int err = f ? f(args...) : -1;
  TORCH_CHECK(!err, name, " returned ", err);
}

template <class Result>
Result ask(const char* name) {
  return reinterpret_cast<Result (*)()>(dlsym(dlopen("libcuda.so.1", RTLD_NOW), name))();
}

c10::Device device(c10::kCUDA, 0);
c10::StreamId current;
int nrecorded;

Handle handle_of(const c10::Stream& s) { return reinterpret_cast<Handle>(s.id()); }

c10::Stream new_stream() {
  Handle s;
  cu("cuStreamCreate", &s, 1u);  // not ordered with the default stream
  return c10::Stream(c10::Stream::UNSAFE, device, reinterpret_cast<c10::StreamId>(s));
}

struct Guard final : c10::impl::DeviceGuardImplInterface {
  c10::DeviceType type() const override { return c10::kCUDA; }
  c10::Device exchangeDevice(c10::Device) const override { return device; }
  c10::Device getDevice() const override { return device; }
  void setDevice(c10::Device) const override {}
  void uncheckedSetDevice(c10::Device) const noexcept override {}
  c10::Stream getStream(c10::Device) const override {
    return c10::Stream(c10::Stream::UNSAFE, device, current);
  }
  c10::Stream getStreamFromGlobalPool(c10::Device, bool) const override { return new_stream(); }
  c10::Stream exchangeStream(c10::Stream s) const override {
    c10::Stream before = getStream(device);
    current = s.id();
    return before;
  }
  void record(void** event, const c10::Stream& s, const c10::DeviceIndex,
              const c10::EventFlag) const override {
    if (!*event)
      cu("cuEventCreate", event, 2u);
    cu("cuEventRecord", *event, handle_of(s));
  }
  void block(void* event, const c10::Stream& s) const override {
    cu("cuStreamWaitEvent", handle_of(s), event, 0u);
  }
  bool queryEvent(void* event) const override {
    auto* query = reinterpret_cast<int (*)(Handle)>(
        dlsym(dlopen("libcuda.so.1", RTLD_NOW), "cuEventQuery"));
    return query(event) == 0;
  }
  void destroyEvent(void* event, const c10::DeviceIndex) const noexcept override {
    if (event)
      cu("cuEventDestroy_v2", event);
  }
  c10::DeviceIndex deviceCount() const noexcept override { return 16; }
  void recordDataPtrOnStream(const c10::DataPtr&, const c10::Stream&) const override {
    nrecorded++;
  }
};

void start(int index) {
  Handle context;
  device = c10::Device(c10::kCUDA, static_cast<c10::DeviceIndex>(index));
  cu("cuInit", 0u);
  cu("cuDevicePrimaryCtxRetain", &context, index);
  cu("cuCtxSetCurrent", context);
  c10::impl::device_guard_impl_registry[static_cast<size_t>(c10::kCUDA)].store(new Guard);
  current = new_stream().id();
}

at::Tensor empty(int64_t n) {
  Address p;
  cu("cuMemAlloc_v2", &p, static_cast<size_t>(n * 4 + 4));
  return at::for_blob(reinterpret_cast<void*>(p), {n})
      .options(at::TensorOptions(at::kFloat).device(device))
      .target_device(device)
      .make_tensor();
}

Handle now() { return reinterpret_cast<Handle>(current); }

// At once, whatever is on the streams.
at::Tensor filled(const at::Tensor& values) {
  at::Tensor t = empty(values.numel());
  if (t.numel())
    cu("cuMemcpy", reinterpret_cast<Address>(t.data_ptr()),
       reinterpret_cast<Address>(values.data_ptr()), t.nbytes());
  return t;
}

// On the current stream.
void copy(const at::Tensor& to, const at::Tensor& from) {
  cu("cuMemcpyAsync", reinterpret_cast<Address>(to.data_ptr()),
     reinterpret_cast<Address>(from.data_ptr()), to.nbytes(), now());
}

at::Tensor load(const at::Tensor& t) {
  at::Tensor host = at::empty({t.numel()}, at::kFloat);
  cu("cuMemcpyAsync", reinterpret_cast<Address>(host.data_ptr()),
     reinterpret_cast<Address>(t.data_ptr()), t.nbytes(), now());
  cu("cuStreamSynchronize", now());
  return host;
}

void hold() { cu("fake_cuda_hold", now(), 60000u); }
void release() { ask<void>("fake_cuda_release"); }

void capture() { cu("cuStreamBeginCapture_v2", now(), 1); }
uintptr_t captured() {
  Handle graph, exec;
  cu("cuStreamEndCapture", now(), &graph);
  cu("cuGraphInstantiateWithFlags", &exec, graph, 0ull);
  return reinterpret_cast<uintptr_t>(exec);
}
void launch(uintptr_t exec) { cu("cuGraphLaunch", reinterpret_cast<Handle>(exec), now()); }

}  // namespace

PYBIND11_MODULE(fake_device, m) {
  m.def("start", &start);
  m.def("empty", &empty);
  m.def("filled", &filled);
  m.def("copy", &copy);
  m.def("load", &load);
  m.def("hold", &hold);
  m.def("release", &release);
  m.def("capture", &capture);
  m.def("captured", &captured);
  m.def("launch", &launch);
  m.def("recorded", [] { return nrecorded; });
  m.def("waits", [] { return ask<int>("fake_cuda_nwaits"); });
  m.def("new_stream", [] { return current = new_stream().id(); });
  m.def("set_stream", [](c10::StreamId s) { current = s; });
}
