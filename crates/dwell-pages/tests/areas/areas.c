// Has one mapping for each area and does what it is told, line by line: "w AREA PAGE COUNT" writes, "r AREA PAGE COUNT" reads,
// "n AREA PAGES" maps a new area. Answers each line with the address of the area.
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

#define AREAS 8
#define PAGE 4096L

static volatile char *areas[AREAS];

static void map_area(int area, long pages) {
    // Guards keep the kernel from joining areas to one mapping.
    char *place = mmap(NULL, (pages + 2) * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    areas[area] = place + PAGE;
    if (place == MAP_FAILED || mprotect(place + PAGE, pages * PAGE, PROT_READ | PROT_WRITE) != 0) {
        exit(1);
    }
}

int main(void) {
    char action;
    int area;
    long first, count = 0, sum = 0;
    char line[64];
    while (fgets(line, sizeof line, stdin) != NULL) {
        if (sscanf(line, "%c %d %ld %ld", &action, &area, &first, &count) < 3 || area >= AREAS) {
            return 2;
        }
        if (action == 'n') {
            map_area(area, first);
        }
        for (long page = first; action != 'n' && page < first + count; page++) {
            if (action == 'w') {
                areas[area][page * PAGE + 17] += 1;
            } else {
                sum += areas[area][page * PAGE + 17];
            }
        }
        printf("%lx %ld\n", (long)areas[area], sum);
        fflush(stdout);
    }
    return 0;
}
