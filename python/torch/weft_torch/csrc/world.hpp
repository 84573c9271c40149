// SPDX-License-Identifier: BSD-3-Clause
// The MPI side of a process: one session for its whole life, in which each process group gets a
// communicator.  The first group starts MPI; any thread may create further groups.
#pragma once

#include <chrono>
#include <cstdint>
#include <mpi.h>
#include <string>
#include <torch/csrc/distributed/c10d/Store.hpp>
#include <vector>

namespace weft {

// Throws DistBackendError with the text of an MPI error.
void check(int err, const char* call);

// Starts MPI unless it runs.  The processes meet by the store, or, if `pmix`, the launcher's PMIx
// server assigns the ranks, which must be those of the group.
void world_start(c10::intrusive_ptr<c10d::Store> store, bool pmix, int rank, int size,
                 int timeout_s);
// A name that all these ranks of the world derive alike, another one for each call; none: all ranks.
// Torch's names of a group may differ between its ranks: they contain the number of groups that
// each process has.
std::string world_tag(const std::vector<int64_t>& ranks);
// A part of the first group's store for those that know the tag.
c10::intrusive_ptr<c10d::Store> world_store(const std::string& tag);
// Makes a communicator of these ranks, in this order.  Collective over them; false: not all of them
// have called before the timeout.
bool world_comm(const std::vector<int64_t>& ranks, const std::string& tag,
                std::chrono::milliseconds timeout, MPI_Comm* comm);
void world_free(MPI_Comm* comm);
// An operation has not ended in time: the world cannot be left in order any more.
void world_spoil();
bool world_spoilt();
// Ends MPI, unless the program ends early: groups are left that may wait for this process, and no
// mpirun ends the job.  Then this process must be one that has died, for the others.
void world_stop();

}  // namespace weft
