// What a library does with its ggml. NAME is the name of both.
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#define TEXT_OF(name) #name
#define TEXT(name) TEXT_OF(name)

typedef bool (*abort_callback)(void *data);
typedef void (*set_abort_callback)(void *backend, abort_callback callback, void *data);

void *made_up_scheduler(void);
void *made_up_backend(void);
void *made_up_tensor(void);
int ggml_backend_sched_graph_compute_async(void *scheduler, void *graph);
void ggml_backend_tensor_set(void *tensor, const void *data, size_t offset, size_t size);
#ifndef FEW_FUNCTIONS
bool ggml_backend_sched_alloc_graph(void *scheduler, void *graph);
void *ggml_backend_reg_get_proc_address(void *registry, const char *name);
void ggml_backend_cpu_set_abort_callback(void *backend, abort_callback callback, void *data);
void ggml_backend_free(void *backend);
#endif

static char graph;

int run(void) {
    float value = 1;
    ggml_backend_tensor_set(made_up_tensor(), &value, 4, sizeof value);
#ifndef FEW_FUNCTIONS
    if (!ggml_backend_sched_alloc_graph(made_up_scheduler(), &graph))
        return 9;
#endif
    int status = ggml_backend_sched_graph_compute_async(made_up_scheduler(), &graph);
    return status + 10;
}

// The caller's call ends in ggml without coming back here.
int jump(void *scheduler) { return ggml_backend_sched_graph_compute_async(scheduler, &graph); }
void *scheduler(void) { return made_up_scheduler(); }
void *pointer(void) { return ggml_backend_sched_graph_compute_async; }

#ifndef FEW_FUNCTIONS
static bool says_go_on(void *data) {
    printf(TEXT(NAME) " is asked with %s\n", (char *)data);
    return false;
}
static bool says_stop(void *data) {
    printf(TEXT(NAME) " is asked to stop with %s\n", (char *)data);
    return true;
}
int listen(void) {
    set_abort_callback set = (set_abort_callback)ggml_backend_reg_get_proc_address(made_up_backend(), "ggml_backend_set_abort_callback");
    set(made_up_backend(), says_go_on, TEXT(NAME));
    return 0;
}
int stop(void) {
    ggml_backend_cpu_set_abort_callback(made_up_backend(), says_stop, TEXT(NAME));
    return 0;
}
int begin_anew(void) {
    ggml_backend_free(made_up_backend());
    return ggml_backend_reg_get_proc_address(made_up_backend(), "something_else") != NULL;
}
#endif
