// Does known things with its memory and prints them: one line for each call, with process, thread, call, address and size.
//
//   history threads WORKERS CALLS   so many threads, which free what others allocated, too
//   history families                each function once or twice
//   history fork                    children by fork and by clone, which free what their parent allocated
//   history exec                    becomes another program: itself, as `families`
//   history flood WORKERS PAIRS     malloc and free, unlogged
//   history wait WORKERS CALLS      as `threads`, then sleeps until it is killed
//   history handler                 maps and unmaps in a signal handler that interrupts malloc
#define _GNU_SOURCE
#include <fcntl.h>
#include <malloc.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

// What lies between two allocations of these sizes was done on purpose; the C library allocates, too.
enum { BEGIN = 424241, END = 424243, MOST_CALLS = 400000, SHELVES = 64 };

struct call { const char *name; uintptr_t address; size_t size; };
struct log { int count; struct call calls[MOST_CALLS]; };
static struct log logs[9];
static _Atomic(uintptr_t) shelves[SHELVES];
static long calls_of_worker;

static void note(struct log *log, const char *name, void *address, size_t size) {
    log->calls[log->count++] = (struct call){name, (uintptr_t)address, size};
}

static void print(struct log *log) {
    char line[160];
    for (int i = 0; i < log->count; i++) {
        struct call *call = &log->calls[i];
        int length = snprintf(line, sizeof line, "%d %ld %s %lu %zu\n", getpid(), syscall(SYS_gettid), call->name,
                              (unsigned long)call->address, call->size);
        if (write(1, line, length) != length) abort();
    }
}

// Compilers know malloc, and leave out what has no effect.
#define KEEP(pointer) __asm__ volatile("" : : "r"(pointer) : "memory")

static void mark(size_t size) {
    void *address = malloc(size);
    KEEP(address);
    free(address);
}

static void *keep_malloc(struct log *log, size_t size) {
    void *address = malloc(size);
    KEEP(address);
    note(log, "malloc", address, size);
    return address;
}

static void keep_free(struct log *log, void *address) {
    note(log, "free", address, 0);
    free(address);
}

static void *keep_realloc(struct log *log, void *address, size_t size) {
    if (address) note(log, "realloc-free", address, 0);
    void *moved = realloc(address, size);
    KEEP(moved);
    note(log, "realloc", moved, size);
    return moved;
}

static void *keep_memalign(struct log *log, size_t alignment, size_t size) {
    void *address = NULL;
    if (posix_memalign(&address, alignment, size)) abort();
    note(log, "posix_memalign", address, size);
    return address;
}

static void *work(void *argument) {
    struct log *log = argument;
    uint64_t state = 88172645463325252u + (uint64_t)(log - logs) * 7919;
    mark(BEGIN);
    for (long i = 0; i < calls_of_worker && log->count < MOST_CALLS - 4; i++) {
        state ^= state << 13, state ^= state >> 7, state ^= state << 17;
        _Atomic(uintptr_t) *shelf = &shelves[state % SHELVES];
        // So that threads take turns however few processors there are.
        if (i % 16 == 0) sched_yield();
        // Whoever takes what lies there may be another thread than the one that allocated it.
        void *found = (void *)atomic_exchange(shelf, 0);
        size_t size = state >> 20 & 0x3fff;
        switch (state >> 50 & 7) {
        case 0: found = keep_realloc(log, found, size + 1); break;
        case 1: if (found) keep_free(log, found); found = keep_memalign(log, 64, size); break;
        case 2: if (found) keep_free(log, found); found = NULL; break;
        default: if (found) keep_free(log, found); found = keep_malloc(log, size);
        }
        uintptr_t other = atomic_exchange(shelf, (uintptr_t)found);
        if (other) keep_free(log, (void *)other);
    }
    mark(END);
    print(log);
    return NULL;
}

static void run_workers(int workers, void *(*body)(void *)) {
    pthread_t threads[8];
    for (int i = 0; i < workers; i++)
        if (pthread_create(&threads[i], NULL, body, &logs[i])) abort();
    for (int i = 0; i < workers; i++) pthread_join(threads[i], NULL);
}

static void *flood(void *ignored) {
    for (long i = 0; i < calls_of_worker; i++) {
        void *address = malloc(64);
        KEEP(address);
        free(address);
    }
    return ignored;
}

static void families(void) {
    struct log *log = &logs[0];
    size_t page = 4096;
    mark(BEGIN);
    void *zeros = calloc(10, 33);
    note(log, "calloc", zeros, 330);
    void *array = reallocarray(NULL, 7, 11);
    note(log, "reallocarray", array, 77);
    void *aligned = aligned_alloc(256, 512);
    note(log, "aligned_alloc", aligned, 512);
    void *at = memalign(128, 100);
    note(log, "memalign", at, 100);
    void *paged = valloc(100);
    note(log, "valloc", paged, 100);
    void *pages = pvalloc(100);
    note(log, "pvalloc", pages, 100);
    zeros = keep_realloc(log, zeros, 100000);
    // Too much: the old block lives on.
    volatile size_t too_much = (size_t)1 << 62;
    note(log, "realloc-free", zeros, 0);
    if (realloc(zeros, too_much)) abort();
    note(log, "undo", zeros, 0);
    if (malloc(too_much) || reallocarray(zeros, too_much, 8)) abort();
    free(NULL);
    void *all[] = {zeros, array, aligned, at, paged, pages};
    for (int i = 0; i < 6; i++) keep_free(log, all[i]);
    char *map = mmap(NULL, 8 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    note(log, "mmap", map, 8 * page);
    memset(map, 1, 8 * page);
    madvise(map, page, MADV_DONTNEED);
    note(log, "madvise", map, page);
    note(log, "munmap", map + 2 * page, page);
    munmap(map + 2 * page, page);
    note(log, "munmap", map + 1, page);
    if (!munmap(map + 1, page)) abort();
    note(log, "undo", map + 1, page);
    note(log, "mremap-free", map + 4 * page, 4 * page);
    char *moved = mremap(map + 4 * page, 4 * page, 64 * page, MREMAP_MAYMOVE);
    note(log, "mremap", moved, 64 * page);
    note(log, "munmap", moved, 64 * page);
    munmap(moved, 64 * page);
    char *end = sbrk(3 * page);
    note(log, "sbrk", end, 3 * page);
    note(log, "sbrk-free", end + page, 2 * page);
    if (sbrk(-2 * (long)page) != end + 3 * page) abort();
    int self = open("/proc/self/exe", O_RDONLY);
    char *file = mmap(NULL, page, PROT_READ, MAP_PRIVATE, self, 0);
    note(log, "mmap-file", file, page);
    close(self);
    mark(END);
    print(log);
}

static void child(void **inherited, const char *way) {
    struct log *log = &logs[8];
    log->count = 0;
    mark(BEGIN);
    keep_free(log, inherited[0]);
    inherited[1] = keep_realloc(log, inherited[1], 5000);
    keep_free(log, keep_malloc(log, way[0] * 100));
    mark(END);
    print(log);
    _exit(0);
}

static void forks(void) {
    struct log *log = &logs[0];
    void *inherited[2];
    mark(BEGIN);
    inherited[0] = keep_malloc(log, 1111);
    inherited[1] = keep_malloc(log, 2222);
    if (fork() == 0) child(inherited, "fork");
    wait(NULL);
    // The handlers of forks do not run.
    if (syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0) == 0) child(inherited, "clone");
    wait(NULL);
    keep_free(log, inherited[0]);
    keep_free(log, inherited[1]);
    mark(END);
    print(log);
    // Starts a program by vfork, and one that is not recorded.
    if (system("true") != 0) abort();
}

static void on_alarm(int ignored) {
    (void)ignored;
    void *map = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    munmap(map, 4096);
}

static void interrupted(void) {
    struct itimerval often = {{0, 200}, {0, 200}};
    signal(SIGALRM, on_alarm);
    setitimer(ITIMER_REAL, &often, NULL);
    calls_of_worker = 300000;
    flood(NULL);
    often = (struct itimerval){{0, 0}, {0, 0}};
    setitimer(ITIMER_REAL, &often, NULL);
}

int main(int count, char **words) {
    const char *what = words[1];
    // Some programs close what they do not know.
    for (int file = 3; file < 200; file++) close(file);
    int workers = count > 2 ? atoi(words[2]) : 0;
    calls_of_worker = count > 3 ? atol(words[3]) : 0;
    if (!strcmp(what, "threads") || !strcmp(what, "wait")) run_workers(workers, work);
    if (!strcmp(what, "flood")) run_workers(workers, flood);
    if (!strcmp(what, "families")) families();
    if (!strcmp(what, "fork")) forks();
    if (!strcmp(what, "handler")) interrupted();
    if (!strcmp(what, "exec")) {
        mark(BEGIN);
        free(keep_malloc(&logs[0], 333));
        execl("/proc/self/exe", words[0], "families", NULL);
    }
    if (!strcmp(what, "wait")) {
        if (write(1, "done\n", 5) != 5) abort();
        pause();
    }
    return 0;
}
