/* SPDX-License-Identifier: BSD-3-Clause */
/* Sleeps of a process with several lanes: every order of the steps of a thread that waits for
 * requests of two lanes, a watcher of one lane, threads of the process that complete requests or
 * poll once, and other processes that send, of this host or of another one: then a descriptor is
 * readable, and no bell rings.  The steps are those of mpi/p2p/wait_lanes.c and
 * wait_sleep.c, runtime/mem/bell.c and of a sender (btl/shm), one access to shared memory each, in
 * the order of the sources.  Stores wait in a buffer for each thread until a step that empties it,
 * as on x86.  A step also changes the data that its lock protects.
 *
 * Nothing may be left asleep: in each state without a next step, all threads have ended.  With one
 * step moved or left out, each proof must fail. */
#include <stdbool.h>
#include <stdint.h>
#include "test/check.h"

/* ---- a machine ---- */

enum { THREADS = 5, BUFFER = 4, LANES = 2, LOOKS = 1, CODE = 1200, MESSAGES = 2 };

/* Memory.  Those up to TAKEN are read without a lock. */
enum var {
    DONE,            /* of the requests 0 and 1, in the lanes 0 and 1, and 2, in lane 1 */
    SENT = DONE + 3, /* messages of other processes, for each lane */
    LOCK = SENT + LANES,
    BELL_LOCK = LOCK + LANES,
    ASLEEP,
    WORD,
    NSLEEPING,
    POLLED,
    READABLE, /* messages of other hosts, for lane 0, that have not been taken */
    TAKEN,    /* messages, for each lane; from here on under the lane's lock */
    ON_RELEASE = TAKEN + LANES,
    NAWAKE = ON_RELEASE + LANES,
    GUEST = NAWAKE + LANES,
    SLEEPER = GUEST + LANES, /* a thread in the list of lane 1 */
    WATCHER,
    NARMED, /* under BELL_LOCK */
    VARS
};

enum op {
    END,
    /* steps */
    TAKE_LOCK,
    UNLOCK,
    ADD,
    BARRIER,
    CLEAR,
    TAKE_ROLE,
    LOAD,
    READ_WORD,
    READ_DONE,
    PASS,
    SLEEP,
    /* part of the step before */
    STORE,
    FENCE,
    SET,
    CHANGE,
    JUMP,
    IF_0,
    UNLESS_0,
    FORGET,
    KEEP,
    DROP,
    UNLESS_FOUND,
    UNLESS_READY,
    UNLESS_POLLS,
};
#define NEXT (-1) /* STORE: one more than there is */

struct ins {
    uint8_t op, var;
    int16_t n; /* value, or where to continue */
};

struct thread {
    uint16_t pc;
    uint8_t found, kept, done, word, polls, nbuf;
    uint8_t buf[BUFFER][2];
};

struct state {
    uint8_t mem[(VARS + 7) / 8 * 8];
    struct thread t[THREADS];
};
_Static_assert(sizeof(struct state) % 8 == 0, "hashed by words");

static struct ins code[CODE];
static int ncode, nthreads;
static bool any;                         /* the wait of the guest is for one request */
static bool fds;                         /* lane 0 has descriptors */
static uint8_t message[LANES][MESSAGES]; /* which request each message completes */
static struct state first;

static uint8_t *find(struct state *s, struct thread *t, int var)
{
    for (int i = t->nbuf - 1; i >= 0; i--)
        if (t->buf[i][0] == var)
            return &t->buf[i][1];
    return &s->mem[var];
}

static void flush_one(struct state *s, struct thread *t)
{
    s->mem[t->buf[0][0]] = t->buf[0][1];
    memmove(t->buf, t->buf + 1, sizeof t->buf - sizeof t->buf[0]);
    memset(t->buf[--t->nbuf], 0, sizeof t->buf[0]);
}

static void store(struct thread *t, int var, int n)
{
    CHECK(t->nbuf < BUFFER);
    t->buf[t->nbuf][0] = (uint8_t)var;
    t->buf[t->nbuf++][1] = (uint8_t)n;
}

/* One pass of progress, under the lock of the lane. */
static void pass(struct state *s, struct thread *t, int lane)
{
    uint8_t *taken = &s->mem[TAKEN + lane];
    if (*find(s, t, SENT + lane) == *taken)
        return;
    store(t, DONE + message[lane][(*taken)++], 1);
    s->mem[READABLE] -= !lane && s->mem[READABLE];
    t->found = 1;
}

static bool ready(const struct thread *t) { return any ? t->done & 3 : (t->done & 3) == 3; }

/* False: the thread cannot continue now. */
static bool step(struct state *s, struct thread *t, const struct ins *i)
{
    uint8_t *at = &s->mem[i->var];
    bool jump = false, whole = i->op <= BARRIER || i->op == FENCE;
    bool event = *at != t->word || (t->polls && s->mem[READABLE]);
    whole = whole || i->op == CLEAR || i->op == TAKE_ROLE;
    if ((whole && t->nbuf) || (i->op == TAKE_LOCK && *at) || (i->op == SLEEP && !event))
        return false;
    switch (i->op) {
    case TAKE_LOCK:
        *at = 1;
        break;
    case UNLOCK:
        *at = 0;
        break;
    case ADD:
    case CHANGE:
        *at = (uint8_t)(*at + i->n);
        break;
    case SET:
        *at = (uint8_t)i->n;
        break;
    case BARRIER:
        for (int k = 0; k < nthreads; k++)
            while (s->t[k].nbuf)
                flush_one(s, &s->t[k]);
        break;
    case CLEAR:
        jump = !*at;
        *at = 0;
        break;
    case TAKE_ROLE:
        t->polls = !*at;
        *at = 1;
        break;
    case LOAD:
        jump = !*find(s, t, i->var);
        break;
    case READ_WORD:
        t->word = *at;
        break;
    case READ_DONE:
        t->done |= (uint8_t)(*find(s, t, i->var) << (i->var - DONE));
        break;
    case PASS:
        pass(s, t, i->var);
        break;
    case STORE:
        store(t, i->var, i->n == NEXT ? *find(s, t, i->var) + 1 : i->n);
        break;
    case JUMP:
        jump = true;
        break;
    case IF_0:
        jump = !*at;
        break;
    case UNLESS_0:
        jump = *at;
        break;
    case FORGET:
        t->found = t->done = 0;
        break;
    case DROP:
        t->kept = 0;
        break;
    case KEEP:
        t->kept |= t->found;
        break;
    case UNLESS_FOUND:
        jump = t->found | t->kept;
        break;
    case UNLESS_READY:
        jump = ready(t);
        break;
    case UNLESS_POLLS:
        jump = t->polls;
        break;
    default:
        break;
    }
    t->pc = (uint16_t)(jump ? i->n : t->pc + 1);
    return true;
}

/* One step and what belongs to it. */
static bool advance(struct state *s, int k)
{
    struct thread *t = &s->t[k];
    if (code[t->pc].op == END || !step(s, t, &code[t->pc]))
        return false;
    while (code[t->pc].op >= STORE && step(s, t, &code[t->pc]))
        continue;
    return true;
}

/* ---- all orders ---- */

enum { SEEN = 1 << 22 };
static uint64_t seen[SEEN]; /* hashes of 64 bits */
static struct state *stack;
static long nstack, room, nstates;

static bool is_new(const struct state *s)
{
    uint64_t h = 1469598103934665603u;
    uint64_t words[sizeof *s / 8];
    memcpy(words, s, sizeof words);
    for (size_t i = 0; i < sizeof words / 8; i++)
        h = (h ^ words[i]) * 0x9e3779b97f4a7c15u, h ^= h >> 29;
    uint64_t i = h % SEEN;
    for (h |= 1; seen[i]; i = (i + 1) % SEEN)
        if (seen[i] == h)
            return false;
    seen[i] = h;
    return true;
}

static void push(const struct state *s)
{
    if (!is_new(s))
        return;
    if (++nstates > SEEN / 4 * 3) {
        printf("Bail out! too many states\n");
        exit(1);
    }
    if (nstack == room) {
        room = room ? 2 * room : 4096;
        stack = realloc(stack, (size_t)room * sizeof *stack);
    }
    stack[nstack++] = *s;
}

static bool all_ended(const struct state *s)
{
    for (int k = 0; k < nthreads; k++)
        if (code[s->t[k].pc].op != END)
            return false;
    return true;
}

static bool expand(const struct state *s)
{
    bool moved = false;
    for (int k = 0; k < nthreads; k++) {
        struct state next = *s;
        if (advance(&next, k)) {
            moved = true;
            push(&next);
        }
        if (s->t[k].nbuf) {
            next = *s;
            flush_one(&next, &next.t[k]);
            moved = true;
            push(&next);
        }
    }
    return moved || all_ended(s);
}

/* Whether no order leaves a thread asleep. */
static bool holds(void)
{
    bool good = true;
    memset(seen, 0, sizeof seen);
    nstack = nstates = 0;
    push(&first);
    while (good && nstack) {
        struct state s = stack[--nstack];
        good = expand(&s);
    }
    return good;
}

/* ---- the steps of the sources ---- */

static enum fault {
    NONE,
    NO_FENCE,      /* wm_lanes_wake_guests() without its fence */
    NO_WAKE,       /* a release that does not look at guests */
    JOINED_LATE,   /* a guest looks at the lanes and checks its requests before it joins */
    ARMED_LATE,    /* arms after the looks */
    COUNTED_LATE,  /* counts in nsleeping after the looks */
    WORD_LATE,     /* rt_bell_arm() reads the word after `asleep` is stored */
    NO_BARRIER,    /* rt_bell_arm() without membarrier */
    WORD_FIRST,    /* rt_bell_wake() changes the word before it clears `asleep` */
    SLEPT_BLINDLY, /* fall_asleep() without its look at waits that have ended */
    NO_SUCCESSOR,  /* wm_sleep_end() without its ring */
    NOT_MISSED,    /* wm_sleep_arm() without its look for a thread that polls */
    FAULTS
} fault;

static int emit(enum op op, int var, int n)
{
    CHECK(ncode < CODE);
    code[ncode] = (struct ins){ (uint8_t)op, (uint8_t)var, (int16_t)n };
    return ncode++;
}

/* The step `jump`, if not -1, continues here. */
static void here(int jump)
{
    if (jump >= 0)
        code[jump].n = (int16_t)ncode;
}

/* rt_bell_ring_at() of a thread of this process, or of another one. */
static void ring(void)
{
    int none = emit(LOAD, ASLEEP, 0);
    emit(FENCE, 0, 0);
    int again = emit(LOAD, ASLEEP, 0), taken = 0;
    if (fault == WORD_FIRST)
        emit(ADD, WORD, 1);
    taken = emit(CLEAR, ASLEEP, 0);
    if (fault != WORD_FIRST)
        emit(ADD, WORD, 1);
    here(none);
    here(again);
    here(taken);
}

static void arm(void)
{
    if (fault != WORD_LATE)
        emit(READ_WORD, WORD, 0);
    emit(TAKE_LOCK, BELL_LOCK, 0);
    emit(CHANGE, NARMED, 1);
    emit(STORE, ASLEEP, 1);
    emit(UNLOCK, BELL_LOCK, 0);
    if (fault != NO_BARRIER)
        emit(BARRIER, 0, 0);
    if (fault == WORD_LATE)
        emit(READ_WORD, WORD, 0);
}

static void disarm(void)
{
    emit(TAKE_LOCK, BELL_LOCK, 0);
    emit(CHANGE, NARMED, -1);
    int others = emit(UNLESS_0, NARMED, 0);
    emit(STORE, ASLEEP, 0);
    here(others);
    emit(UNLOCK, BELL_LOCK, 0);
}

static void read_done(void)
{
    emit(FORGET, 0, 0);
    emit(READ_DONE, DONE, 0);
    emit(READ_DONE, DONE + 1, 0);
}

/* wm_wait_serve(); returns where to continue if nothing is left. */
static int serve(int lane)
{
    int awake = emit(UNLESS_0, NAWAKE + lane, 0), none[LOOKS];
    for (int i = 0; i < LOOKS; i++) {
        emit(FORGET, 0, 0);
        emit(PASS, lane, 0);
        int found = emit(UNLESS_FOUND, 0, 0);
        none[i] = emit(JUMP, 0, 0);
        here(found);
    }
    int more = emit(JUMP, 0, 0);
    here(awake);
    for (int i = 0; i < LOOKS; i++)
        here(none[i]);
    int over = emit(JUMP, 0, 0);
    here(more);
    return over;
}

/* wake() of the watcher, which sleeps on the bell. */
static void wake(void)
{
    emit(SET, SLEEPER, 0);
    emit(CHANGE, NAWAKE + 1, 1);
    ring();
}

static void wake_ended(void)
{
    int none = emit(IF_0, SLEEPER, 0), not_yet = emit(LOAD, DONE + 2, 0);
    wake();
    here(none);
    here(not_yet);
}

static void serve_sleepers(void)
{
    int over = serve(1);
    wake_ended();
    int awake = emit(UNLESS_0, NAWAKE + 1, 0);
    wake();
    int out = emit(JUMP, 0, 0);
    here(over);
    wake_ended();
    here(awake);
    here(out);
}

static void lanes_serve(int lane)
{
    int counted = emit(LOAD, NSLEEPING, 0), over = serve(lane);
    ring();
    int out = emit(JUMP, 0, 0);
    here(counted);
    emit(SET, ON_RELEASE + lane, 0);
    here(over);
    here(out);
}

static void wake_guest(int lane)
{
    int none = emit(IF_0, GUEST + lane, 0);
    if (fault != NO_FENCE)
        emit(FENCE, 0, 0);
    read_done();
    int ended = emit(UNLESS_READY, 0, 0), not_yet = emit(JUMP, 0, 0);
    here(ended);
    emit(SET, GUEST + lane, 0);
    ring();
    here(none);
    here(not_yet);
}

/* rt_unlock(): wm_wait_on_release(). */
static void release(int lane)
{
    int off = emit(IF_0, ON_RELEASE + lane, 0), sleeper = emit(UNLESS_0, SLEEPER, 0);
    lanes_serve(lane);
    int served = emit(JUMP, 0, 0);
    here(sleeper);
    if (lane)
        serve_sleepers();
    else
        lanes_serve(lane);
    here(served);
    if (fault != NO_WAKE)
        wake_guest(lane);
    here(off);
    emit(UNLOCK, LOCK + lane, 0);
}

/* wm_sleep_arm(), without nsleeping; returns where to go if the thread that polled has gone. */
static int arm_or_miss(void)
{
    if (fds)
        emit(TAKE_ROLE, POLLED, 0);
    arm();
    if (!fds || fault == NOT_MISSED)
        return -1;
    int polls = emit(UNLESS_POLLS, 0, 0), missed = emit(LOAD, POLLED, 0);
    here(polls);
    return missed;
}

/* The end of wm_sleep() outside lane 0. */
static void progress_of_zero(void)
{
    int polls = emit(UNLESS_POLLS, 0, 0), none = emit(JUMP, 0, 0);
    here(polls);
    emit(TAKE_LOCK, LOCK, 0);
    emit(PASS, 0, 0);
    release(0);
    here(none);
}

/* wm_sleep_end() */
static void sleep_end(void)
{
    disarm();
    emit(ADD, NSLEEPING, -1);
    int polls = emit(UNLESS_POLLS, 0, 0), none = emit(JUMP, 0, 0);
    here(polls);
    emit(STORE, POLLED, 0);
    emit(FENCE, 0, 0);
    int alone = emit(LOAD, NSLEEPING, 0), taken = emit(LOAD, POLLED, 0), out = emit(JUMP, 0, 0);
    here(taken);
    if (fault != NO_SUCCESSOR)
        ring();
    here(alone);
    here(out);
    here(none);
}

/* A program of one thread; begin() returns its number. */
static void begin(void)
{
    if (nthreads)
        emit(END, 0, 0);
    first.t[nthreads++].pc = (uint16_t)ncode;
}

/* look() of wait_lanes.c, after the lock has been taken. */
static void look(int lane)
{
    emit(SET, ON_RELEASE + lane, 1);
    emit(FORGET, 0, 0);
    emit(PASS, lane, 0);
    emit(KEEP, 0, 0);
    release(lane);
    emit(FORGET, 0, 0);
}

/* wm_lanes_sleep() in the loop of wait_mixed(); lane 0 is home. */
static void guest(void)
{
    begin();
    emit(TAKE_LOCK, LOCK, 0);
    emit(CHANGE, NAWAKE, 1);
    emit(UNLOCK, LOCK, 0);
    int top = emit(DROP, 0, 0);
    for (int e = 0; e < LANES; e++) {
        emit(TAKE_LOCK, LOCK + e, 0);
        emit(PASS, e, 0);
        release(e);
    }
    read_done();
    int over = emit(UNLESS_READY, 0, 0);
    emit(TAKE_LOCK, LOCK, 0);
    emit(CHANGE, NAWAKE, -1);
    release(0);
    if (fault != COUNTED_LATE)
        emit(ADD, NSLEEPING, 1);
    int missed = fault != ARMED_LATE ? arm_or_miss() : -1;
    for (int e = 0; e < LANES; e++) {
        emit(TAKE_LOCK, LOCK + e, 0);
        if (fault != JOINED_LATE)
            emit(SET, GUEST + e, 1);
        look(e);
    }
    if (fault == COUNTED_LATE)
        emit(ADD, NSLEEPING, 1);
    if (fault == ARMED_LATE)
        arm();
    int busy = emit(UNLESS_FOUND, 0, 0);
    read_done();
    int early = emit(UNLESS_READY, 0, 0);
    for (int e = 0; e < LANES && fault == JOINED_LATE; e++) {
        emit(TAKE_LOCK, LOCK + e, 0);
        emit(SET, GUEST + e, 1);
        emit(UNLOCK, LOCK + e, 0);
    }
    emit(SLEEP, WORD, 0);
    progress_of_zero();
    here(early);
    here(busy);
    here(missed);
    for (int e = 0; e < LANES; e++) {
        emit(TAKE_LOCK, LOCK + e, 0);
        emit(SET, GUEST + e, 0);
        emit(UNLOCK, LOCK + e, 0);
    }
    sleep_end();
    emit(TAKE_LOCK, LOCK, 0);
    emit(CHANGE, NAWAKE, 1);
    emit(UNLOCK, LOCK, 0);
    emit(JUMP, 0, top);
    here(over);
    emit(TAKE_LOCK, LOCK, 0);
    emit(CHANGE, NAWAKE, -1);
    release(0);
}

/* watch() of wait_sleep.c in lane 1. */
static void watcher(void)
{
    begin();
    emit(TAKE_LOCK, LOCK + 1, 0);
    emit(CHANGE, NAWAKE + 1, 1);
    int top = emit(DROP, 0, 0);
    emit(PASS, 1, 0);
    int not_yet = emit(LOAD, DONE + 2, 0);
    emit(CHANGE, NAWAKE + 1, -1);
    release(1);
    int over = emit(JUMP, 0, 0);
    here(not_yet);
    emit(UNLOCK, LOCK + 1, 0);
    emit(ADD, NSLEEPING, 1);
    int missed = arm_or_miss();
    emit(TAKE_LOCK, LOCK, 0);
    look(0);
    emit(TAKE_LOCK, LOCK + 1, 0);
    emit(FORGET, 0, 0);
    emit(PASS, 1, 0);
    int busy = emit(UNLESS_FOUND, 0, 0);
    emit(CHANGE, NAWAKE + 1, -1);
    emit(SET, SLEEPER, 1);
    emit(SET, ON_RELEASE + 1, 1);
    if (fault != SLEPT_BLINDLY)
        wake_ended();
    emit(UNLOCK, LOCK + 1, 0);
    emit(SLEEP, WORD, 0);
    progress_of_zero();
    emit(TAKE_LOCK, LOCK + 1, 0);
    int awake = emit(IF_0, SLEEPER, 0);
    emit(SET, SLEEPER, 0);
    emit(CHANGE, NAWAKE + 1, 1);
    here(busy);
    here(awake);
    int end = ncode;
    sleep_end();
    emit(JUMP, 0, top);
    here(missed);
    emit(TAKE_LOCK, LOCK + 1, 0);
    emit(JUMP, 0, end);
    here(over);
}

/* A thread of the process that completes requests of one lane, by messages to itself, and leaves.
 */
static void completer(int request, int n)
{
    int lane = request > 0;
    begin();
    emit(TAKE_LOCK, LOCK + lane, 0);
    for (int i = 0; i < n; i++)
        emit(STORE, DONE + request + i, 1);
    release(lane);
}

/* A thread that polls once. */
static void tester(int lane)
{
    begin();
    emit(TAKE_LOCK, LOCK + lane, 0);
    emit(PASS, lane, 0);
    release(lane);
}

/* Another process, which needs no fence. */
static void sender(int lane, int n)
{
    begin();
    for (int i = 0; i < n; i++) {
        emit(STORE, SENT + lane, NEXT);
        ring();
    }
}

/* A sleeper that finds work after it has armed: it may be the one that polls. */
static void leaver(void)
{
    begin();
    emit(ADD, NSLEEPING, 1);
    here(arm_or_miss());
    sleep_end();
}

/* A process of another host. */
static void far_sender(void)
{
    begin();
    emit(STORE, SENT, NEXT);
    emit(ADD, READABLE, 1);
}

static void reset(bool for_any)
{
    memset(&first, 0, sizeof first);
    ncode = nthreads = 0;
    any = for_any;
    fds = false;
    message[0][0] = 0;
    message[1][0] = 1;
    message[1][1] = 2;
}

/* ---- the cases ---- */

static void two_completers(bool for_any)
{
    reset(for_any);
    guest();
    completer(0, 1);
    completer(1, 1);
}

static void two_senders(void)
{
    reset(false);
    guest();
    sender(0, 1);
    sender(1, 1);
}

static void sender_tester_completer(void)
{
    reset(false);
    guest();
    sender(0, 1);
    tester(0);
    completer(1, 1);
}

/* Another process ends the wait of the watcher before that of the guest, or after. */
static void beside_a_watcher(void)
{
    reset(false);
    message[1][0] = 2;
    message[1][1] = 1;
    guest();
    watcher();
    completer(0, 1);
    sender(1, 2);
}

static void watcher_last(void)
{
    reset(true);
    guest();
    watcher();
    sender(1, 2);
}

static void completers_beside_a_watcher(void)
{
    reset(false);
    guest();
    watcher();
    completer(0, 1);
    completer(1, 2);
}

static void far_beside_one_that_leaves(void)
{
    reset(true);
    fds = true;
    guest();
    leaver();
    far_sender();
}

static void far_sender_and_completer(void)
{
    reset(false);
    fds = true;
    guest();
    far_sender();
    completer(1, 1);
}

enum { CASES = 9 };

static bool play(int which)
{
    switch (which) {
    case 0:
        two_completers(false);
        break;
    case 1:
        two_completers(true);
        break;
    case 2:
        two_senders();
        break;
    case 3:
        sender_tester_completer();
        break;
    case 4:
        watcher_last();
        break;
    case 5:
        completers_beside_a_watcher();
        break;
    case 6:
        far_sender_and_completer();
        break;
    case 7:
        far_beside_one_that_leaves();
        break;
    default:
        beside_a_watcher();
        break;
    }
    emit(END, 0, 0);
    return holds();
}

static void nothing_stays_asleep(void)
{
    for (int i = 0; i < CASES; i++) {
        CHECK_MSG(play(i), "case %d", i);
        printf("# case %d: %ld states\n", i, nstates);
    }
}

/* Each fault leaves a thread asleep in one of the cases. */
static void each_fault_is_found(void)
{
    for (fault = NONE + 1; fault < FAULTS; fault++) {
        int i = 0;
        while (i < CASES && play(i))
            i++;
        CHECK_MSG(i < CASES, "fault %d is not found", (int)fault);
        printf("# fault %d: case %d\n", (int)fault, i);
    }
    fault = NONE;
}

int main(void)
{
    RUN(nothing_stays_asleep);
    RUN(each_fault_is_found);
    return check_end();
}
