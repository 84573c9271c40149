// SPDX-License-Identifier: BSD-3-Clause
// Tensors as MPI sees them: what is checked, counts and displacements, lists as one flat tensor.
#pragma once

#include "device.hpp"

#include <ATen/ATen.h>
#include <mpi.h>
#include <vector>

namespace weft {

using Tensors = std::vector<at::Tensor>;
using TensorLists = std::vector<std::vector<at::Tensor>>;

// On a device that can be used, dense and contiguous.
void check_tensor(const at::Tensor& t);
// The one tensor that a call takes.
const at::Tensor& only(const Tensors& tensors, const char* call);
// The same device and dtype.
void check_alike(const at::Tensor& a, const at::Tensor& b);
// One tensor for each rank, alike.
void check_list(const Tensors& list, int size, const at::Tensor& like, const char* what);

inline MPI_Count bytes(const at::Tensor& t) { return static_cast<MPI_Count>(t.nbytes()); }

// Data that is moved: as bytes, or as words if int has no number for so many bytes.
struct Moved {
  explicit Moved(const at::Tensor& t);
  bool wide;
  MPI_Count n;
  MPI_Datatype type;
};

at::Tensor flat_like(const Tensors& list);
at::Tensor flatten(const Tensors& list);
void unflatten(const at::Tensor& flat, const Tensors& list);

// Counts and displacements of consecutive blocks, in bytes.
struct Blocks {
  Blocks() = default;
  Blocks(int size, MPI_Count each);
  std::vector<MPI_Count> counts;
  std::vector<MPI_Aint> displs;
  std::vector<int> narrow_counts() const { return narrow(counts); }
  std::vector<int> narrow_displs() const { return narrow({displs.begin(), displs.end()}); }
  void add(MPI_Count n);
};

Blocks blocks_of(const Tensors& list);
// Rows of dimension 0 for each rank; none given: equal parts.
Blocks blocks_of(const at::Tensor& t, const std::vector<int64_t>& rows, int size,
                 const char* what);

}  // namespace weft
