// SPDX-License-Identifier: BSD-3-Clause
// What Python sees of the back end.
#include "backend.hpp"
#include "world.hpp"

#include <pybind11/chrono.h>
#include <pybind11/functional.h>
#include <torch/csrc/utils/pybind.h>

namespace py = pybind11;

static c10::intrusive_ptr<c10d::Backend> create(int rank, int size, std::vector<int64_t> ranks,
                                                const std::string& name,
                                                std::chrono::milliseconds timeout) {
  return c10::make_intrusive<weft::WeftBackend>(rank, size, std::move(ranks), name, timeout);
}

static void start(c10::intrusive_ptr<c10d::Store> store, bool pmix, int rank, int size,
                  int timeout_s, weft::StreamHandle handle) {
  weft::lane_init(std::move(handle));
  py::gil_scoped_release others;
  weft::world_start(std::move(store), pmix, rank, size, timeout_s);
}

static void stop() {
  weft::progress_stop();
  weft::world_stop();
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
  m.def("start", &start);
  m.def("create", &create, py::call_guard<py::gil_scoped_release>());
  m.def("stop", &stop, py::call_guard<py::gil_scoped_release>());
}
