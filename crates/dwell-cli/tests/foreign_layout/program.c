// Computes twice and says so.
#include <stdio.h>

extern int computations;
int ggml_backend_sched_graph_compute_async(void *scheduler, void *graph);

int main(void) {
    char scheduler, graph;
    ggml_backend_sched_graph_compute_async(&scheduler, &graph);
    ggml_backend_sched_graph_compute_async(&scheduler, &graph);
    printf("computed %d times\n", computations);
    return 0;
}
