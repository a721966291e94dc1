// A child whose stack is full of ones when it allocates for the first time, which is when it makes its ring.
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static __attribute__((noinline)) void fill_stack(void) {
    char room[256 << 10];
    memset(room, 0x55, sizeof room);
    __asm__ volatile("" : : "r"(room) : "memory");
}

int main(void) {
    pid_t child = fork();
    if (child == 0) {
        fill_stack();
        char *volatile memory = malloc(12345);
        memory[0] = 1;
        free(memory);
        _exit(0);
    }
    int status = 1;
    return waitpid(child, &status, 0) == child ? status != 0 : 2;
}
