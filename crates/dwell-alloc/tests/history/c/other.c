// An allocator that knows its own memory and ends the program if it is given any other.
#define _GNU_SOURCE
#include <errno.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { BYTES = 1 << 28, HEADER = 16 };
static char memory[BYTES] __attribute__((aligned(4096)));
static atomic_size_t used;

static void *take(size_t alignment, size_t size) {
    if (alignment < HEADER) alignment = HEADER;
    size_t whole = size + HEADER + alignment;
    size_t begin = atomic_fetch_add(&used, whole);
    if (size > BYTES || begin + whole > BYTES) {
        errno = ENOMEM;
        return NULL;
    }
    uintptr_t address = ((uintptr_t)memory + begin + HEADER + alignment - 1) / alignment * alignment;
    ((size_t *)address)[-1] = size;
    return (void *)address;
}

static void check(void *address) {
    if ((char *)address < memory || (char *)address >= memory + BYTES) __builtin_trap();
}

void *malloc(size_t size) { return take(HEADER, size); }
void *calloc(size_t count, size_t size) { return take(HEADER, count * size); }
void *memalign(size_t alignment, size_t size) { return take(alignment, size); }
void *aligned_alloc(size_t alignment, size_t size) { return take(alignment, size); }

int posix_memalign(void **address, size_t alignment, size_t size) {
    *address = take(alignment, size);
    return *address ? 0 : ENOMEM;
}

void free(void *address) {
    if (address) check(address);
}

void *realloc(void *address, size_t size) {
    void *moved = take(HEADER, size);
    if (!address || !moved) return moved;
    check(address);
    size_t before = ((size_t *)address)[-1];
    return memcpy(moved, address, before < size ? before : size);
}
