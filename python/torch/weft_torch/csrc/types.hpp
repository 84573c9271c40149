// SPDX-License-Identifier: BSD-3-Clause
// Datatypes and operations of MPI for those of torch.
#pragma once

#include <ATen/ATen.h>
#include <mpi.h>
#include <torch/csrc/distributed/c10d/Types.hpp>

namespace weft {

struct Reduction {
  MPI_Datatype type;
  MPI_Op op;
  bool average;       // the sum is to be divided by the number of ranks
  at::Tensor factor;  // PREMUL_SUM: what each input is multiplied by; undefined: nothing
};

// Throws for what MPI cannot reduce.
Reduction reduction_of(const c10d::ReduceOp& op, at::ScalarType type);

}  // namespace weft
