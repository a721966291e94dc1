// A program that is linked with a library that computes, and with whatever else.
#include <stdio.h>

int run(void);

int main(void) {
    for (int time = 0; time < 2; time++)
        printf("run: %d\n", run());
    return 0;
}
