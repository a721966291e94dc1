// Touches known pages, and says which: areas by the main thread, a second thread, a child, and of a file.
//
//   faults areas FILE      32 pages by the main thread, 16 by another, 8 by a child and its parent, one of the file
//   faults overflow        touches pages while the observer is stopped
//   faults wait STREAM     touches 32 pages, waits until the observer has written, says "done", and waits
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PAGE = 4096 };

static char *area(int pages) {
    char *memory = mmap(NULL, (size_t)pages * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) exit(3);
    madvise(memory, (size_t)pages * PAGE, MADV_NOHUGEPAGE);
    return memory;
}

__attribute__((noinline)) static void touch_pages(volatile char *memory, int pages, int step) {
    for (int page = 0; page < pages; page += step) memory[(size_t)page * PAGE + 7] = 1;
}

static long faults_so_far(void) {
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return usage.ru_minflt;
}

static void say(const char *name, const void *address, long thread) {
    printf("%s %lx %d %ld\n", name, (unsigned long)address, getpid(), thread);
    fflush(stdout);
}

static void *of_a_thread(void *memory) {
    touch_pages(memory, 16, 1);
    say("thread", memory, syscall(SYS_gettid));
    return NULL;
}

static int areas(const char *file) {
    char *first = area(64), *second = area(16), *shared_with_child = area(8);
    say("warm", first, getpid());
    long before = faults_so_far();
    touch_pages(first, 64, 2);
    touch_pages(first, 64, 2);
    long after = faults_so_far();
    if (after - before != 32) return 4;
    say("main", first, getpid());
    pthread_t thread;
    pthread_create(&thread, NULL, of_a_thread, second);
    pthread_join(thread, NULL);
    pid_t child = fork();
    touch_pages(shared_with_child, 8, 1);
    say(child == 0 ? "child" : "parent", shared_with_child, getpid());
    if (child == 0) _exit(0);
    waitpid(child, NULL, 0);
    int fd = open(file, O_RDONLY);
    volatile char *mapped = mmap(NULL, 64 * PAGE, PROT_READ, MAP_PRIVATE, fd, 16 * PAGE);
    volatile char byte = mapped[5 * PAGE + 3];
    (void)byte;
    say("file", (const void *)&mapped[5 * PAGE + 3], getpid());
    // The kernel touches this page for the program.
    char *read_into = area(1);
    if (pread(fd, read_into + 9, 1, 0) != 1) return 5;
    say("kernel", read_into, getpid());
    return 0;
}

static pid_t parent_of(pid_t pid) {
    char path[64];
    int parent = 0;
    snprintf(path, sizeof path, "/proc/%d/stat", pid);
    FILE *stat = fopen(path, "r");
    if (!stat || fscanf(stat, "%*d (%*[^)]) %*c %d", &parent) != 1) exit(6);
    fclose(stat);
    return parent;
}

static int overflow(void) {
    pid_t observer = parent_of(getppid());
    char *memory = area(1024);
    say("stopping", memory, observer);
    kill(observer, SIGSTOP);
    usleep(200000);
    for (int round = 0; round < 200; round++) {
        touch_pages(memory, 1024, 1);
        madvise(memory, 1024 * PAGE, MADV_DONTNEED);
    }
    kill(observer, SIGCONT);
    touch_pages(memory, 1024, 1);
    say("all", memory, 201 * 1024);
    return 0;
}

static int wait_for(const char *stream) {
    char *first = area(64), *hot = area(1);
    touch_pages(first, 64, 2);
    say("main", first, getpid());
    struct stat before, now;
    for (int writes = 0; writes < 3; writes++) {
        stat(stream, &before);
        do {
            hot[0] = 1;
            madvise(hot, PAGE, MADV_DONTNEED);
            usleep(5000);
            stat(stream, &now);
        } while (now.st_size == before.st_size);
    }
    printf("done\n");
    fflush(stdout);
    sleep(600);
    return 0;
}

int main(int count, char **words) {
    if (count == 3 && !strcmp(words[1], "areas")) return areas(words[2]);
    if (count == 2 && !strcmp(words[1], "overflow")) return overflow();
    if (count == 3 && !strcmp(words[1], "wait")) return wait_for(words[2]);
    return 2;
}
