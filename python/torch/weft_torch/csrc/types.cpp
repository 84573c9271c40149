// SPDX-License-Identifier: BSD-3-Clause
// Datatypes and operations of MPI for those of torch.
#include "types.hpp"

namespace weft {
namespace {

using c10d::ReduceOp;

MPI_Datatype type_of(at::ScalarType type) {
  switch (type) {
    case at::kFloat: return MPI_FLOAT;
    case at::kDouble: return MPI_DOUBLE;
    case at::kHalf: return MPIX_FLOAT16;
    case at::kBFloat16: return MPIX_BFLOAT16;
    case at::kByte: case at::kBool: return MPI_UINT8_T;
    case at::kChar: return MPI_INT8_T;
    case at::kShort: return MPI_INT16_T;
    case at::kInt: return MPI_INT32_T;
    case at::kLong: return MPI_INT64_T;
    case at::kUInt16: return MPI_UINT16_T;
    case at::kUInt32: return MPI_UINT32_T;
    case at::kUInt64: return MPI_UINT64_T;
    case at::kComplexFloat: return MPI_C_FLOAT_COMPLEX;
    case at::kComplexDouble: return MPI_C_DOUBLE_COMPLEX;
    default: return MPI_DATATYPE_NULL;
  }
}

// A bool is a byte of 0 or 1: true wins in a sum, false in a product.
MPI_Op op_of(ReduceOp::RedOpType op, at::ScalarType type) {
  bool is_bool = type == at::kBool;
  bool is_int = at::isIntegralType(type, /*includeBool=*/true);
  bool is_ordered = !at::isComplexType(type);
  switch (op) {
    case ReduceOp::SUM: return is_bool ? MPI_MAX : MPI_SUM;
    case ReduceOp::PRODUCT: return is_bool ? MPI_MIN : MPI_PROD;
    case ReduceOp::AVG: case ReduceOp::PREMUL_SUM: return is_bool ? MPI_OP_NULL : MPI_SUM;
    case ReduceOp::MIN: return is_ordered ? MPI_MIN : MPI_OP_NULL;
    case ReduceOp::MAX: return is_ordered ? MPI_MAX : MPI_OP_NULL;
    case ReduceOp::BAND: return is_int ? MPI_BAND : MPI_OP_NULL;
    case ReduceOp::BOR: return is_int ? MPI_BOR : MPI_OP_NULL;
    case ReduceOp::BXOR: return is_int ? MPI_BXOR : MPI_OP_NULL;
    default: return MPI_OP_NULL;
  }
}

const char* name_of(ReduceOp::RedOpType op) {
  static const char* const names[] = {"SUM", "AVG",  "PRODUCT", "MIN",       "MAX",
                                      "BAND", "BOR", "BXOR",    "PREMUL_SUM"};
  return op < sizeof names / sizeof names[0] ? names[op] : "an unknown operation";
}

}  // namespace

Reduction reduction_of(const ReduceOp& op, at::ScalarType type) {
  Reduction r{type_of(type), op_of(op.op_, type), op.op_ == ReduceOp::AVG, {}};
  TORCH_CHECK(r.type != MPI_DATATYPE_NULL && r.op != MPI_OP_NULL, "weft: cannot reduce ", type,
              " by ReduceOp.", name_of(op.op_));
  if (op.op_ == ReduceOp::PREMUL_SUM) {
    auto* s = static_cast<c10d::NCCLPreMulSumSupplement*>(op.supplement_.get());
    r.factor = s->tensor_factor.defined() ? s->tensor_factor
                                          : at::scalar_tensor(s->double_factor, at::kDouble);
  }
  return r;
}

}  // namespace weft
