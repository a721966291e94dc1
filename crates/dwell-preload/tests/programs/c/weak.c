// A program that computes if there is a ggml.
#include <stdio.h>

__attribute__((weak)) int ggml_backend_sched_graph_compute_async(void *scheduler, void *graph);
__attribute__((weak)) _Bool ggml_backend_sched_alloc_graph(void *scheduler, void *graph);

int main(void) {
    char object;
    _Bool is_allocated = ggml_backend_sched_alloc_graph && ggml_backend_sched_alloc_graph(&object, &object);
    int status = ggml_backend_sched_graph_compute_async ? ggml_backend_sched_graph_compute_async(&object, &object) : -1;
    printf("%d %d\n", is_allocated, status);
    return 0;
}
