// SPDX-License-Identifier: BSD-3-Clause
#include "tensors.hpp"

#include <climits>
#include <numeric>

namespace weft {

void check_tensor(const at::Tensor& t) {
  TORCH_CHECK(t.device().is_cpu() || t.device().is_cuda(),
              "weft: moves CPU and CUDA tensors, and this one is on ", t.device());
  TORCH_CHECK(t.layout() == at::kStrided,
              "weft: tensors must be dense here; all_reduce alone takes sparse ones");
  TORCH_CHECK_VALUE(t.is_contiguous(), "weft: Tensors must be contiguous");  // as NCCL has it
}

const at::Tensor& only(const Tensors& tensors, const char* call) {
  TORCH_CHECK(tensors.size() == 1, "weft: ", call, " takes one tensor, found ", tensors.size());
  check_tensor(tensors[0]);
  return tensors[0];
}

void check_alike(const at::Tensor& a, const at::Tensor& b) {
  TORCH_CHECK(a.device() == b.device(), "weft: tensors are on ", a.device(), " and ", b.device());
  TORCH_CHECK(a.scalar_type() == b.scalar_type(), "weft: tensors have dtypes ", a.scalar_type(),
              " and ", b.scalar_type());
}

Moved::Moved(const at::Tensor& t)
    : wide(t.nbytes() > INT_MAX && t.nbytes() % 8 == 0),
      n(bytes(t) / (wide ? 8 : 1)),
      type(wide ? MPI_UINT64_T : MPI_BYTE) {}

static int64_t total(const Tensors& list) {
  return std::accumulate(list.begin(), list.end(), int64_t{0},
                         [](int64_t n, const at::Tensor& t) { return n + t.numel(); });
}

void check_list(const Tensors& list, int size, const at::Tensor& like, const char* what) {
  TORCH_CHECK(static_cast<int>(list.size()) == size, "weft: the list of ", what, " has ",
              list.size(), " tensors, expected one for each of ", size, " ranks");
  for (auto& t : list) {
    check_tensor(t);
    check_alike(t, like);
  }
}

at::Tensor flat_like(const Tensors& list) { return at::empty({total(list)}, list[0].options()); }

at::Tensor flatten(const Tensors& list) {
  at::Tensor flat = flat_like(list);
  int64_t at = 0;
  for (auto& t : list) {
    flat.narrow(0, at, t.numel()).copy_(t.reshape({-1}));
    at += t.numel();
  }
  return flat;
}

void unflatten(const at::Tensor& flat, const Tensors& list) {
  int64_t at = 0;
  for (auto& t : list) {
    t.view({-1}).copy_(flat.narrow(0, at, t.numel()));
    at += t.numel();
  }
}

Blocks::Blocks(int size, MPI_Count each) {
  while (size--)
    add(each);
}

void Blocks::add(MPI_Count n) {
  displs.push_back(counts.empty() ? 0 : displs.back() + static_cast<MPI_Aint>(counts.back()));
  counts.push_back(n);
}

Blocks blocks_of(const Tensors& list) {
  Blocks b;
  for (auto& t : list)
    b.add(bytes(t));
  return b;
}

Blocks blocks_of(const at::Tensor& t, const std::vector<int64_t>& rows, int size,
                 const char* what) {
  int64_t all = t.dim() ? t.size(0) : 0;
  int64_t row = all ? static_cast<int64_t>(t.nbytes()) / all : 0;
  Blocks b;
  if (rows.empty()) {
    TORCH_CHECK(all % size == 0, "weft: dimension 0 of the ", what, ", ", all,
                ", is not a multiple of ", size, " ranks");
  } else {
    TORCH_CHECK(static_cast<int>(rows.size()) == size, "weft: ", rows.size(),
                " split sizes of the ", what, ", expected ", size);
    TORCH_CHECK(std::accumulate(rows.begin(), rows.end(), int64_t{0}) == all,
                "weft: the split sizes of the ", what, " do not add up to its dimension 0, ", all);
  }
  for (int r = 0; r < size; r++)
    b.add(row * (rows.empty() ? all / size : rows[r]));
  return b;
}

}  // namespace weft
