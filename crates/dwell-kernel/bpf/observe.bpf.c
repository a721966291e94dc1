// What the kernel tells `dwell observe`: block requests, threads off the processor, faults, system calls, TCP.
//
// Counters only grow; the reader takes differences, so nothing is lost between two readings. What many processors write is
// kept for each of them. All maps have a fixed size: what does not fit is counted in `lost`.

#include "kernel.bpf.h"

char licence_of_programs[] SEC("license") = "Dual MIT/GPL";

enum { REQUEST_PLACES = 16384, KIND_PLACES = 512, WAYS = 4, KIND_WAYS = 8 };
enum { SLOTS = 32, CALLS = 64, CALL_NUMBERS = 512, NAME_WORDS = NAME_BYTES / sizeof(u64) };
enum { FILTER_NONE, FILTER_PROCESSES, FILTER_CGROUPS, FILTER_NAME };
enum { LOST_REQUESTS, LOST_DEVICES, LOST_THREADS, LOST_SOCKETS, LOSSES };
enum { OPERATION_READ, OPERATION_WRITE, OPERATION_OTHER };
// In nanoseconds.
#define MICROSECOND 1000ULL

enum { KERNEL_THREAD = 0x00200000, EXITING = 0x4, MSG_PEEK = 2, PROTOCOL_TCP = 6, FAMILY_INET = 2, FAMILY_INET6 = 10 };

// Set before the programs are loaded.
const volatile u32 filter = FILTER_NONE;
const volatile u64 filter_name[NAME_WORDS] = {};
// For each number of a system call, one more than its place among the traced ones.
const volatile u8 call_places[CALL_NUMBERS] = {};
// Whether the result of a traced call is a number of bytes: 1 if they were read, 2 if they were written.
const volatile u8 call_moves[CALLS] = {};
const volatile u8 call_waits[CALLS] = {};

// A request that is with its device. `request` is 0 in a place that nobody holds.
struct issued {
    u64 request;
    u64 at_ns;
    u64 kind;
};

// Requests of one kind: of one device and operation. `kind` is 0 in a place that nobody holds.
struct device {
    u64 kind;
    s64 inflight;
    u64 requests;
    u64 bytes;
    u64 errors;
    u64 requeues;
    u64 latency_ns;
    u64 latency_max_ns;
    u64 slots[SLOTS];
};

struct call {
    u64 count;
    u64 errors;
    u64 bytes;
    u64 latency_ns;
    u64 latency_max_ns;
    u64 slots[SLOTS];
};

struct run_queue {
    u64 count;
    u64 wait_ns;
    u64 wait_max_ns;
    u64 slots[SLOTS];
};

// A thread and what it did. Most of it is written by the thread itself, the rest under the scheduler's locks.
struct thread {
    u64 off_since_ns;
    u64 off_ns;
    u64 ready_since_ns;
    u64 ready_ns;
    u64 switches;
    u64 faults;
    u64 write_faults;
    u64 call_began_ns;
    u64 calls;
    u64 call_ns;
    u64 wait_ns;
    u64 read_bytes;
    u64 written_bytes;
    u64 tcp_sent_bytes;
    u64 tcp_received_bytes;
    u64 tcp_retransmits;
    u64 start_ns;
    // For how long it had computed when it was last seen to leave the processor.
    u64 computed_ns;
    u32 call_place;
    u32 process;
    u32 parent;
    u32 has_exited;
    char name[NAME_BYTES];
};

// A request lies in one of a few places that its address determines, and a kind of requests in one of a few of each processor.
// Compared with hash tables, this takes no lock and no call of a helper, which halves what a request costs.
struct {
    MAP_UINT(type, MAP_ARRAY);
    MAP_UINT(max_entries, REQUEST_PLACES);
    MAP_TYPE(key, u32);
    MAP_TYPE(value, struct issued);
} requests SEC(".maps");

struct {
    MAP_UINT(type, MAP_PERCPU_ARRAY);
    MAP_UINT(max_entries, KIND_PLACES);
    MAP_TYPE(key, u32);
    MAP_TYPE(value, struct device);
} devices SEC(".maps");

struct {
    MAP_UINT(type, MAP_HASH);
    MAP_UINT(max_entries, 32768);
    MAP_TYPE(key, u32);
    MAP_TYPE(value, struct thread);
} threads SEC(".maps");

// Processes or control groups that were chosen.
struct {
    MAP_UINT(type, MAP_HASH);
    MAP_UINT(max_entries, 8192);
    MAP_TYPE(key, u64);
    MAP_TYPE(value, u8);
} members SEC(".maps");

// The thread that last sent on a socket, which retransmissions are charged to.
struct {
    MAP_UINT(type, MAP_LRU_HASH);
    MAP_UINT(max_entries, 8192);
    MAP_TYPE(key, u64);
    MAP_TYPE(value, u32);
} sockets SEC(".maps");

struct {
    MAP_UINT(type, MAP_PERCPU_ARRAY);
    MAP_UINT(max_entries, CALLS);
    MAP_TYPE(key, u32);
    MAP_TYPE(value, struct call);
} calls SEC(".maps");

struct {
    MAP_UINT(type, MAP_PERCPU_ARRAY);
    MAP_UINT(max_entries, 1);
    MAP_TYPE(key, u32);
    MAP_TYPE(value, struct run_queue);
} run_queues SEC(".maps");

struct {
    MAP_UINT(type, MAP_PERCPU_ARRAY);
    MAP_UINT(max_entries, LOSSES);
    MAP_TYPE(key, u32);
    MAP_TYPE(value, u64);
} lost SEC(".maps");

// When the observation began. A thread that sleeps at that time is off the processor from then on.
struct {
    MAP_UINT(type, MAP_ARRAY);
    MAP_UINT(max_entries, 1);
    MAP_TYPE(key, u32);
    MAP_TYPE(value, u64);
} began SEC(".maps");

// The empty value that new entries begin as; it is too large for the stack of a program.
static const struct thread no_thread;

INLINE void count_loss(u32 what) {
    u64 *count = map_lookup(&lost, &what);
    if (count)
        *count += 1;
}

// Slot s holds 2^s to 2^(s+1)-1 microseconds; slot 0 holds 0 and 1. Without a division, which takes longer than all the rest.
INLINE u32 slot_of(u64 ns) {
    u32 slot = 0;
    if (ns >= MICROSECOND << 32)
        return SLOTS - 1;
    if (ns >= MICROSECOND << 16) {
        ns >>= 16;
        slot += 16;
    }
    if (ns >= MICROSECOND << 8) {
        ns >>= 8;
        slot += 8;
    }
    if (ns >= MICROSECOND << 4) {
        ns >>= 4;
        slot += 4;
    }
    if (ns >= MICROSECOND << 2) {
        ns >>= 2;
        slot += 2;
    }
    if (ns >= MICROSECOND << 1)
        slot += 1;
    return slot & (SLOTS - 1);
}

// ---- block requests ----

INLINE u32 device_of(struct request *request) {
    struct request___older *older = (void *)request;
    struct gendisk *disk;
    if (FIELD_EXISTS(older->rq_disk))
        disk = older->rq_disk;
    else
        disk = request->q->disk;
    if (!disk)
        return 0;
    return (u32)disk->major << 20 | (u32)disk->first_minor;
}

// A device and an operation as one number, which is never 0.
INLINE u64 kind_of(struct request *request) {
    u64 operation = request->cmd_flags & 0xff;
    if (operation > OPERATION_WRITE)
        operation = OPERATION_OTHER;
    return 1ULL << 40 | operation << 32 | device_of(request);
}

// The upper half of the product depends on all bits of the number.
INLINE u32 first_place(u64 number) {
    return (u32)(number * 0x9e3779b97f4a7c15ULL >> 40);
}

INLINE struct device *device_entry(u64 kind) {
    u32 first = first_place(kind);
#pragma unroll
    for (u32 way = 0; way < KIND_WAYS; way++) {
        u32 place = (first + way) & (KIND_PLACES - 1);
        struct device *device = map_lookup(&devices, &place);
        if (!device)
            continue;
        if (device->kind == kind)
            return device;
        // A completion may interrupt an issue on the same processor and take the place first.
        if (!device->kind && !__sync_val_compare_and_swap(&device->kind, 0, kind))
            return device;
    }
    count_loss(LOST_DEVICES);
    return 0;
}

// The address of a request as a number: the verifier lets no pointer be multiplied, and takes the difference of two for a number.
INLINE u64 number_of(struct request *request) {
    u64 number = (u64)request;
    asm("%0 -= %1" : "+r"(number) : "r"(&call_waits));
    return number;
}

INLINE struct issued *request_place(u64 request, u32 way) {
    u32 place = (first_place(request) + way) & (REQUEST_PLACES - 1);
    return map_lookup(&requests, &place);
}

// The place that holds a request, or with 0 one that nobody holds. Two processors that take the same place at the same time would lose
// the latency of one request.
INLINE struct issued *find_request(u64 request, u64 held) {
#pragma unroll
    for (u32 way = 0; way < WAYS; way++) {
        struct issued *issued = request_place(request, way);
        if (issued && issued->request == held)
            return issued;
    }
    return 0;
}

SEC("tp_btf/block_rq_issue")
int block_rq_issue(u64 *arguments) {
    struct request *request = (void *)arguments[0];
    // A flush moves no data, and completes twice.
    if (request->__data_len == 0)
        return 0;
    u64 key = number_of(request);
    // A request that was requeued, or whose completion went by unseen, is issued again and gets a new time.
    struct issued *issued = find_request(key, key);
    bool is_new = !issued;
    if (is_new)
        issued = find_request(key, 0);
    if (!issued) {
        count_loss(LOST_REQUESTS);
        return 0;
    }
    u64 kind = kind_of(request);
    issued->at_ns = now_ns();
    issued->kind = kind;
    issued->request = key;
    struct device *device = device_entry(kind);
    if (!device)
        return 0;
    if (is_new)
        device->inflight += 1;
    else
        device->requeues += 1;
    return 0;
}

SEC("tp_btf/block_rq_complete")
int block_rq_complete(u64 *arguments) {
    struct request *request = (void *)arguments[0];
    u32 error = (u32)arguments[1];
    u32 bytes = (u32)arguments[2];
    u32 left_bytes = request->__data_len;
    if (left_bytes == 0)
        return 0;
    u64 key = number_of(request);
    struct issued *issued = find_request(key, key);
    struct device *device = device_entry(issued ? issued->kind : kind_of(request));
    if (!device)
        return 0;
    device->bytes += bytes;
    if (error & 0xff)
        device->errors += 1;
    // The rest of a request that completes in parts is still with the device.
    if (bytes < left_bytes)
        return 0;
    device->requests += 1;
    if (!issued)
        return 0;
    u64 latency_ns = now_ns() - issued->at_ns;
    issued->request = 0;
    device->inflight -= 1;
    device->latency_ns += latency_ns;
    if (latency_ns > device->latency_max_ns)
        device->latency_max_ns = latency_ns;
    device->slots[slot_of(latency_ns)] += 1;
    return 0;
}

// ---- threads ----

INLINE bool is_member(u64 key) {
    return map_lookup(&members, &key) != 0;
}

// Names are padded with zeros, so that whole words can be compared.
INLINE bool has_name(struct task_struct *task) {
    u64 name[NAME_WORDS] = {};
    read_kernel(name, NAME_BYTES, task->comm);
    return name[0] == filter_name[0] && name[1] == filter_name[1];
}

INLINE bool is_chosen(struct task_struct *task) {
    if (filter == FILTER_PROCESSES)
        return is_member((u32)task->tgid);
    if (filter == FILTER_CGROUPS)
        return is_member(task->cgroups->dfl_cgrp->kn->id);
    if (filter == FILTER_NAME)
        return has_name(task) || has_name(task->group_leader);
    return 1;
}

// Not inlined: it is a part of most programs.
//
// The entry of a thread, made if it has none. `is_off` says whether the thread is off the processor.
static __attribute__((noinline)) struct thread *thread_of(struct task_struct *task, bool is_off) {
    u32 key = task->pid;
    u64 start_ns = task->start_time;
    struct thread *thread = map_lookup(&threads, &key);
    // The number of a thread that has exited may be that of another one by now.
    if (thread && thread->start_ns == start_ns)
        return thread;
    // The reader may have removed the entry of a thread that exits and still runs.
    if (key == 0 || (task->flags & (KERNEL_THREAD | EXITING)) || !is_chosen(task))
        return 0;
    map_update(&threads, &key, &no_thread, UPDATE_ANY);
    thread = map_lookup(&threads, &key);
    if (!thread) {
        count_loss(LOST_THREADS);
        return 0;
    }
    thread->start_ns = start_ns;
    thread->computed_ns = task->se.sum_exec_runtime;
    thread->process = task->tgid;
    thread->parent = task->real_parent->tgid;
    read_kernel(thread->name, NAME_BYTES, task->group_leader->comm);
    u32 first = 0;
    u64 *began_ns = map_lookup(&began, &first);
    if (is_off && began_ns && *began_ns)
        thread->off_since_ns = start_ns > *began_ns ? start_ns : *began_ns;
    return thread;
}

INLINE bool is_ready(struct task_struct *task) {
    struct task_struct___older *older = (void *)task;
    if (FIELD_EXISTS(older->state))
        return older->state == 0;
    return task->__state == 0;
}

INLINE void leave_run_queue(struct thread *thread, u64 now) {
    u64 wait_ns = now - thread->ready_since_ns;
    thread->ready_since_ns = 0;
    thread->ready_ns += wait_ns;
    u32 first = 0;
    struct run_queue *queue = map_lookup(&run_queues, &first);
    if (!queue)
        return;
    queue->count += 1;
    queue->wait_ns += wait_ns;
    if (wait_ns > queue->wait_max_ns)
        queue->wait_max_ns = wait_ns;
    queue->slots[slot_of(wait_ns)] += 1;
}

// Some kernels run no program while certain threads are current, so that a return to the processor may go by unseen. The thread was
// off for the time that it did not compute.
INLINE void leave_processor(struct thread *thread, u64 now, u64 computed_ns) {
    if (thread->off_since_ns) {
        u64 passed_ns = now - thread->off_since_ns;
        u64 ran_ns = computed_ns - thread->computed_ns;
        if (ran_ns < passed_ns)
            thread->off_ns += passed_ns - ran_ns;
    }
    thread->off_since_ns = now;
    thread->computed_ns = computed_ns;
    thread->switches += 1;
}

SEC("tp_btf/sched_switch")
int sched_switch(u64 *arguments) {
    bool is_preempted = arguments[0];
    struct task_struct *previous = (void *)arguments[1];
    struct task_struct *next = (void *)arguments[2];
    u64 now = now_ns();
    struct thread *thread = thread_of(previous, 0);
    if (thread) {
        leave_processor(thread, now, previous->se.sum_exec_runtime);
        // Without a wake-up since, an earlier one is of a return that was not seen.
        thread->ready_since_ns = is_preempted || is_ready(previous) ? now : 0;
    }
    thread = thread_of(next, 1);
    if (!thread)
        return 0;
    if (thread->off_since_ns)
        thread->off_ns += now - thread->off_since_ns;
    thread->off_since_ns = 0;
    if (thread->ready_since_ns)
        leave_run_queue(thread, now);
    return 0;
}

INLINE int wake(struct task_struct *task) {
    struct thread *thread = thread_of(task, 1);
    // A thread that is still on its processor was woken before it went to sleep.
    if (thread && thread->off_since_ns)
        thread->ready_since_ns = now_ns();
    return 0;
}

SEC("tp_btf/sched_wakeup")
int sched_wakeup(u64 *arguments) {
    return wake((void *)arguments[0]);
}

SEC("tp_btf/sched_wakeup_new")
int sched_wakeup_new(u64 *arguments) {
    return wake((void *)arguments[0]);
}

SEC("tp_btf/sched_process_fork")
int sched_process_fork(u64 *arguments) {
    struct task_struct *parent = (void *)arguments[0];
    struct task_struct *child = (void *)arguments[1];
    u64 child_process = (u32)child->tgid;
    u8 yes = 1;
    if (filter == FILTER_PROCESSES && is_member((u32)parent->tgid))
        map_update(&members, &child_process, &yes, UPDATE_ANY);
    return 0;
}

SEC("tp_btf/sched_process_exec")
int sched_process_exec(u64 *arguments) {
    struct task_struct *task = (void *)arguments[0];
    struct thread *thread = thread_of(task, 0);
    if (thread)
        read_kernel(thread->name, NAME_BYTES, task->comm);
    return 0;
}

SEC("tp_btf/sched_process_exit")
int sched_process_exit(u64 *arguments) {
    struct task_struct *task = (void *)arguments[0];
    u32 key = task->pid;
    u64 process = (u32)task->tgid;
    struct thread *thread = map_lookup(&threads, &key);
    // The reader removes the entry once it has read it.
    if (thread)
        thread->has_exited = 1;
    if (filter == FILTER_PROCESSES && task->pid == task->tgid)
        map_delete(&members, &process);
    return 0;
}

// ---- faults ----

SEC("tp_btf/page_fault_user")
int page_fault_user(u64 *arguments) {
    struct thread *thread = thread_of(current_task(), 0);
    if (!thread)
        return 0;
    thread->faults += 1;
    if (arguments[2] & 2)
        thread->write_faults += 1;
    return 0;
}

// ---- system calls ----

SEC("tp_btf/sys_enter")
int sys_enter(u64 *arguments) {
    u64 number = arguments[1];
    if (number >= CALL_NUMBERS)
        return 0;
    u8 place = call_places[number];
    if (!place)
        return 0;
    struct thread *thread = thread_of(current_task(), 0);
    if (!thread)
        return 0;
    thread->call_place = place;
    thread->call_began_ns = now_ns();
    return 0;
}

INLINE void end_call(struct thread *thread, u32 place, s64 result) {
    u64 latency_ns = now_ns() - thread->call_began_ns;
    struct call *call = map_lookup(&calls, &place);
    if (!call)
        return;
    call->count += 1;
    call->latency_ns += latency_ns;
    if (latency_ns > call->latency_max_ns)
        call->latency_max_ns = latency_ns;
    call->slots[slot_of(latency_ns)] += 1;
    thread->calls += 1;
    thread->call_ns += latency_ns;
    u32 checked = place & (CALLS - 1);
    if (call_waits[checked])
        thread->wait_ns += latency_ns;
    if (result < 0) {
        call->errors += 1;
        return;
    }
    u8 moves = call_moves[checked];
    if (!moves)
        return;
    call->bytes += result;
    if (moves == 1)
        thread->read_bytes += result;
    else
        thread->written_bytes += result;
}

SEC("tp_btf/sys_exit")
int sys_exit(u64 *arguments) {
    u32 key = current_task()->pid;
    struct thread *thread = map_lookup(&threads, &key);
    if (!thread || !thread->call_place)
        return 0;
    u32 place = thread->call_place - 1;
    thread->call_place = 0;
    if (place < CALLS)
        end_call(thread, place, (s64)arguments[1]);
    return 0;
}

// ---- TCP ----

INLINE bool is_tcp(struct sock *socket) {
    u16 family = socket->__sk_common.skc_family;
    return socket->sk_protocol == PROTOCOL_TCP && (family == FAMILY_INET || family == FAMILY_INET6);
}

SEC("tp_btf/sock_send_length")
int sock_send_length(u64 *arguments) {
    struct sock *socket = (void *)arguments[0];
    s32 bytes = (s32)arguments[1];
    if (bytes <= 0 || !is_tcp(socket))
        return 0;
    struct task_struct *task = current_task();
    struct thread *thread = thread_of(task, 0);
    if (!thread)
        return 0;
    thread->tcp_sent_bytes += bytes;
    u64 key = (u64)socket;
    u32 sender = task->pid;
    if (map_update(&sockets, &key, &sender, UPDATE_ANY))
        count_loss(LOST_SOCKETS);
    return 0;
}

SEC("tp_btf/sock_recv_length")
int sock_recv_length(u64 *arguments) {
    struct sock *socket = (void *)arguments[0];
    s32 bytes = (s32)arguments[1];
    if (bytes <= 0 || (arguments[2] & MSG_PEEK) || !is_tcp(socket))
        return 0;
    struct thread *thread = thread_of(current_task(), 0);
    if (thread)
        thread->tcp_received_bytes += bytes;
    return 0;
}

SEC("tp_btf/tcp_retransmit_skb")
int tcp_retransmit_skb(u64 *arguments) {
    u64 key = arguments[0];
    u32 *sender = map_lookup(&sockets, &key);
    if (!sender)
        return 0;
    u32 thread_key = *sender;
    struct thread *thread = map_lookup(&threads, &thread_key);
    if (thread)
        __sync_fetch_and_add(&thread->tcp_retransmits, 1);
    return 0;
}
