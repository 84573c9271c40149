// SPDX-License-Identifier: BSD-3-Clause
// Starts and ends MPI; see world.hpp.
#include "world.hpp"

#include <algorithm>
#include <atomic>
#include <c10/util/Exception.h>
#include <cstring>
#include <future>
#include <map>
#include <mutex>
#include <thread>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>

namespace weft {
namespace {

// Between looks at the store at first, then a quarter of the time so far: a round trip.
constexpr std::chrono::microseconds kLookUs(200);

struct World {
  std::mutex lock;
  bool up = false, by_store = false;
  std::atomic<bool> spoilt{false};
  std::atomic<int> ncomms{0};
  MPI_Session session = MPI_SESSION_NULL;
  MPI_Group group = MPI_GROUP_NULL;
  int rank = -1, size = 0;
  c10::intrusive_ptr<c10d::Store> store;  // of the first group; MPI may use it until finalized
  std::map<std::vector<int64_t>, unsigned> ntags;  // calls of world_tag() for these ranks
};

World& world() {
  static auto* w = new World;  // never destroyed: threads may outlive static objects
  return *w;
}

int put(void*, const char* key, const void* value, MPI_Count len) {
  try {
    auto* bytes = static_cast<const uint8_t*>(value);
    world().store->set(key, std::vector<uint8_t>(bytes, bytes + len));
    return MPI_SUCCESS;
  } catch (const std::exception& e) {
    TORCH_WARN("weft: the store of torch.distributed failed to set ", key, ": ", e.what());
    return MPI_ERR_OTHER;
  }
}

// For a short time, the key is looked up again and again: waits of stores log a warning when the key
// does not come (TCPStore), or last a second at least (FileStore).  Longer waits throw the same
// exception for a timeout and for a lost connection; whether the store still answers tells which it
// was.
bool appears(const std::string& key, std::chrono::milliseconds timeout) {
  auto& store = world().store;
  auto begin = std::chrono::steady_clock::now();
  if (timeout > std::chrono::seconds(1)) {
    try {
      store->wait({key}, timeout);
      return true;
    } catch (const std::exception&) {
      return store->check({key});
    }
  }
  while (!store->check({key})) {
    std::chrono::microseconds waited = std::chrono::duration_cast<std::chrono::microseconds>(
        std::chrono::steady_clock::now() - begin);
    if (waited >= timeout)
      return false;
    std::this_thread::sleep_for(std::clamp(waited / 4, kLookUs, 50 * kLookUs));
  }
  return true;
}

int get(void*, const char* key, void* value, MPI_Count max, MPI_Count* len, int timeout_ms) {
  try {
    if (!appears(key, std::chrono::milliseconds(timeout_ms)))
      return MPI_ERR_PENDING;
    auto got = world().store->get(key);
    std::memcpy(value, got.data(), std::min(got.size(), static_cast<size_t>(max)));
    *len = static_cast<MPI_Count>(got.size());
    return MPI_SUCCESS;
  } catch (const std::exception& e) {
    TORCH_WARN("weft: the store of torch.distributed failed to get ", key, ": ", e.what());
    return MPI_ERR_OTHER;
  }
}

void open_session(World& w) {
  check(MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_RETURN, &w.session), "MPI_Session_init");
  check(MPI_Group_from_session_pset(w.session, "mpi://WORLD", &w.group),
        "MPI_Group_from_session_pset");
  MPI_Group_rank(w.group, &w.rank);
  MPI_Group_size(w.group, &w.size);
}

}  // namespace

void check(int err, const char* call) {
  if (err == MPI_SUCCESS)
    return;
  char text[MPI_MAX_ERROR_STRING] = "";
  int len = 0;
  MPI_Error_string(err, text, &len);
  C10_THROW_ERROR(DistBackendError,
                  c10::str("weft: ", call, " on rank ", world().rank, ": ", text));
}

void world_start(c10::intrusive_ptr<c10d::Store> store, bool pmix, int rank, int size,
                 int timeout_s) {
  World& w = world();
  std::lock_guard<std::mutex> hold(w.lock);
  if (!w.up) {
    w.store = std::move(store);
    w.by_store = !pmix;
    if (w.by_store)
      check(MPIX_Init_from_store(rank, size, timeout_s, put, get, nullptr),
            "MPIX_Init_from_store");
    open_session(w);
    w.up = true;
  }
  TORCH_CHECK(w.rank == rank && w.size == size, "weft: this process is rank ", w.rank, " of ",
              w.size, " for MPI, and rank ", rank, " of ", size,
              " for init_process_group. The launcher of MPI and the rank and world_size given to "
              "torch must agree, and a process keeps both for its life.");
}

std::string world_tag(const std::vector<int64_t>& ranks) {
  World& w = world();
  std::lock_guard<std::mutex> hold(w.lock);
  return c10::str("torch/", w.ntags[ranks]++, "/", c10::Join(",", ranks));
}

c10::intrusive_ptr<c10d::Store> world_store(const std::string& tag) {
  return c10::make_intrusive<c10d::PrefixStore>(tag, world().store);
}

// MPI has no creation with a timeout, so a thread makes the call: it is left behind after a timeout.
// MPI compares the members itself, and the tag may be long: its beginning is enough.
bool world_comm(const std::vector<int64_t>& ranks, const std::string& tag,
                std::chrono::milliseconds timeout, MPI_Comm* comm) {
  struct Creation {
    MPI_Group group = MPI_GROUP_NULL;
    MPI_Comm comm = MPI_COMM_NULL;
    std::string tag;
    std::promise<int> err;
  };
  World& w = world();
  auto c = std::make_shared<Creation>();
  std::vector<int> list(ranks.begin(), ranks.end());
  if (ranks.empty())
    check(MPI_Group_union(w.group, MPI_GROUP_EMPTY, &c->group), "MPI_Group_union");
  else
    check(MPI_Group_incl(w.group, static_cast<int>(list.size()), list.data(), &c->group),
          "MPI_Group_incl");
  c->tag = tag.substr(0, MPI_MAX_STRINGTAG_LEN - 1);
  auto end = c->err.get_future();
  std::thread([c] {
    int err = MPI_Comm_create_from_group(c->group, c->tag.c_str(), MPI_INFO_NULL,
                                         MPI_ERRORS_RETURN, &c->comm);
    MPI_Group_free(&c->group);
    c->err.set_value(err);
  }).detach();
  if (end.wait_for(timeout) != std::future_status::ready)
    return false;
  check(end.get(), "MPI_Comm_create_from_group");
  *comm = c->comm;
  w.ncomms++;
  return true;
}

void world_free(MPI_Comm* comm) {
  MPI_Comm_free(comm);
  world().ncomms--;
}

void world_spoil() { world().spoilt = true; }

bool world_spoilt() { return world().spoilt; }

void world_stop() {
  World& w = world();
  std::lock_guard<std::mutex> hold(w.lock);
  if (!w.up || w.spoilt || (w.ncomms && w.by_store))
    return;
  MPI_Group_free(&w.group);
  MPI_Session_finalize(&w.session);
  w.up = false;
}

}  // namespace weft
