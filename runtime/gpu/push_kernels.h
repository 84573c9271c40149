/* SPDX-License-Identifier: BSD-3-Clause */
/* Shared by host code and the kernels of push.cu, beside kernel.h: short collectives and messages
 * of streams, one kernel a rank and call.  Plain C and CUDA C++; fixed-size types only.  A test's
 * fake driver runs the same contract on the CPU.
 *
 * Each rank has an inbox in its device's memory, which all other ranks map once.  In a call a
 * kernel stores its data into the inboxes of the ranks that need them, then reads what arrives in
 * its own inbox, and reduces or copies it.  It reads no other device's memory.
 *
 * Flags in the data.  A word of 8 bytes in an inbox holds 4 bytes of data and, above them, the
 * number of the call.  Such a store is atomic among devices (`relaxed`, scope `sys`, in PTX), so a
 * reader that finds the number has the data, in whatever order words arrive, and neither side needs
 * a fence.  16 bytes of data, a group, are four words.  This doubles the bytes on the link.  Lines
 * of 128 bytes with one flag would add a sixteenth only, but rest on stores of a warp that arrive
 * whole, which PTX does not promise.  The words are enough for the lengths at which the time of a
 * launch and of a hop counts; cost.def has the limit.
 *
 * No word is overwritten too early.  An inbox has two slots; call e uses slot e % 2.
 *  1. In every call of every kind each rank stores a mark to every other rank, and its kernel ends
 *     only after it has found the marks of all other ranks.
 *  2. So when a rank begins call e + 1, all ranks have begun call e.  Calls of one rank run in the
 *     order of its stream; so all ranks have ended call e - 1, and with it their reading of slot
 *     (e - 1) % 2, which is the slot of call e + 1.
 * The marks have two slots as well, and the same proof holds for them.  A kernel that ends has
 * found all words that other ranks send it in this call, so no word arrives in an inbox later.
 *
 * No number is mistaken.  A word keeps the number of the last call that used the word, which may be
 * long ago.  Numbers have 32 bits.  Each time 2^31 calls have passed, the kernels of two successive
 * calls store a number of the other slot's parity to all words of their slots.  So no word keeps a
 * number for 2^32 calls.  An inbox begins with zeros; call 0 exists only after 2^32 calls.
 *
 * No rank waits for ever.  A mark carries a signature of the call's arguments; without a reduction
 * also the bytes that the sender of the mark sends to its reader, which may be known to these two
 * alone.  A rank that finds another signature than it expects stops, as it does when the host or
 * another rank gives up
 * (`abort`, `poison`), and makes the others stop.  Groups of data are assigned to blocks so that
 * block b waits only for data that the blocks b of other ranks store before they wait.  So the
 * blocks of a grid need not run at the same time, if the device starts them in order. */
#ifndef RT_GPU_PUSH_KERNELS_H
#define RT_GPU_PUSH_KERNELS_H

#include <stdint.h>

#define RT_GPU_PUSH_RANKS 16  /* most */
#define RT_GPU_PUSH_GROUP 16u /* bytes of data, */
#define RT_GPU_PUSH_ROOM 32u  /* and the bytes that they take in an inbox */
/* Shape of a launch, the same on all ranks.  The last warp of the first block looks for the marks
 * while the others wait for data, so there are at least two warps. */
#define WEFT_PUSH_THREADS 512u
#define WEFT_PUSH_BLOCKS 32u

/* Rank r's inbox in a slot: a region of `stride` bytes for each other rank, in the order of ranks.
 * All addresses are as this device uses them. */
struct rt_gpu_push_rank {
    uint64_t inbox;         /* two slots */
    uint64_t marks;         /* uint64_t [2][RT_GPU_PUSH_RANKS], by sender */
    uint64_t poison;        /* word: 1: some rank has given up */
    uint64_t src, dst;      /* the data for this rank; the place for the data from this rank */
    uint32_t send, receive; /* bytes; 0: none, and the address is not used */
};
/* A call.  Without `folds`, the data from each rank are copied to its `dst`; of this rank's own
 * entry, `send` bytes from src to dst.  With `folds`, this rank's dst[] gets x[0] op x[1] op ...,
 * in this order, where x[r] are the `receive` bytes of this rank's entry that rank r sends, and for
 * this rank itself those at its src; if they are 0, the rank gets no result.
 *
 * A `dst` may be the `src` of the same entry; with `folds`, this rank's dst may also be the src of
 * any entry, as a whole or with its beginning; else they do not overlap. */
struct rt_gpu_push {
    uint64_t epochs;       /* word in this device's memory: calls so far */
    uint64_t ended;        /* word there: blocks that have ended; 0 between launches */
    uint64_t runs, words;  /* as in struct rt_gpu_meet; words: struct rt_gpu_meet_words */
    uint32_t ticket;       /* the same */
    uint32_t signature;    /* of the arguments */
    uint32_t slot, stride; /* bytes; stride: a multiple of RT_GPU_PUSH_ROOM */
    uint8_t rank, size;
    uint8_t type, code; /* as in struct rt_gpu_fold_args */
    uint8_t folds;
    uint8_t gives_up; /* this rank cannot take part: makes all ranks stop */
    uint8_t pad[2];
    struct rt_gpu_push_rank of[RT_GPU_PUSH_RANKS];
};
/* The signature in a mark for a rank that gets `nbytes`; `p`: struct rt_gpu_push *. */
#define RT_GPU_PUSH_SIGNATURE(p, nbytes) \
    ((p)->folds ? (p)->signature : (p)->signature + (nbytes)*0x9e3779b1u)

/* Short messages: weft_message stores one message into a slot of the receiver's inbox, or takes one
 * out.  Hosts match the messages and choose the slots when the calls are made (mpi/stream/eager.c),
 * so a launch, also of a graph, needs no host.  The words are those of collectives, with the number
 * of the message in its slot in place of the number of the call.
 *
 * Both sides count the messages of a slot in their own memory.  They agree because a slot has one
 * sender and one receiver, and each side runs the messages of a slot in the order in which the
 * sender's host has numbered them, on one stream.
 *
 * No word is overwritten too early.  The sender of message e waits until its `credit` word is at
 * least e - 1.  The receiver stores e there after all its threads have found all words of message
 * e, so none of these words arrives later, and none is read later.
 *
 * No number is mistaken.  The receiver of each message whose number is a multiple of 2^31 stores
 * another number to all words of the slot, before it gives the credit, so while no sender may store
 * there.  So no word keeps a number for 2^32 messages.  A slot begins with zeros, which no word
 * with a number has before the first renewal.
 *
 * No rank waits for ever: waiting ends as in a collective, and then all ranks give up.  A block of
 * a receiver waits only for words that blocks of the sender store without waiting for it. */
struct rt_gpu_message {
    uint64_t epochs; /* word in this device's memory: messages of the slot so far, on this side */
    uint64_t ended;  /* as in struct rt_gpu_push, and shared with it */
    uint64_t runs, words;
    uint64_t poison;       /* word there: some rank has given up */
    uint64_t slot, credit; /* in the receiver's inbox; in the sender's memory */
    uint64_t data;         /* the message, or the place for it; 0: `keep` is 0 */
    uint32_t nbytes, keep; /* of the message; of them that the receiver stores to `data` */
    uint32_t room, ticket; /* room: bytes of the slot */
    uint8_t sends, nranks, pad[6];
    uint64_t poison_of[RT_GPU_PUSH_RANKS]; /* of all ranks */
};

#endif
