// A ggml of one graph with one tensor, which knows its own objects from those of another copy. NAME is its name.
// With -DOTHER_LAYOUT its tensors have another layout; with -DFEW_FUNCTIONS it lacks most of what the recorder needs.
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TEXT_OF(name) #name
#define TEXT(name) TEXT_OF(name)

typedef bool (*abort_callback)(void *data);

struct tensor {
    int type;
#ifdef OTHER_LAYOUT
    int64_t another_field;
#endif
    void *buffer;
    int64_t ne[4];
    size_t nb[4];
    int op;
    int32_t op_params[16];
    int32_t flags;
    struct tensor *src[10];
    struct tensor *view_src;
    size_t view_offs;
    void *data;
    char name[64];
    void *extra;
    char padding[8];
};

// As in ggml, an object points to functions of its library, by itself or through what it points to.
struct buffer {
    void (*free)(void);
};
struct backend {
    const char *guid;
    void (*free)(void);
    abort_callback callback;
    void *data;
};
struct scheduler {
    bool is_reset;
    int n_backends;
    struct backend *backends[4];
};

static void nothing(void) {}
static struct buffer buffer = {nothing};
static float values[8];
static struct tensor node = {.buffer = &buffer,
                             .ne = {8, 1, 1, 1},
                             .nb = {4, 32, 32, 32},
                             .op = 1,
                             .flags = 16,
                             .data = values,
                             .name = TEXT(NAME)};
static struct backend backend = {"cpu", nothing, NULL, NULL};
static struct scheduler scheduler = {true, 1, {&backend}};
static int computations;

static void check(const void *found, const void *own, const char *what) {
    if (found != own) {
        printf("the %s of another ggml came to " TEXT(NAME) "\n", what);
        fflush(stdout);
        abort();
    }
}

void *made_up_scheduler(void) { return &scheduler; }
void *made_up_backend(void) { return &backend; }
struct tensor *made_up_tensor(void) { return &node; }

int ggml_backend_sched_graph_compute_async(struct scheduler *given, void *graph) {
    check(given, &scheduler, "scheduler");
    computations++;
    bool is_aborted = backend.callback && backend.callback(backend.data);
    printf(TEXT(NAME) " computes %d%s\n", computations, is_aborted ? ", and is aborted" : "");
    return is_aborted ? 1 : 0;
}
void ggml_backend_tensor_set(struct tensor *tensor, const void *data, size_t offset, size_t size) {
    check(tensor, &node, "tensor");
    memcpy((char *)values + offset, data, size);
}

#ifndef FEW_FUNCTIONS
bool ggml_backend_sched_alloc_graph(struct scheduler *given, void *graph) { return check(given, &scheduler, "scheduler"), true; }
int ggml_backend_tensor_alloc(void *buffer, struct tensor *tensor, void *address) { return check(tensor, &node, "tensor"), 0; }
int ggml_graph_n_nodes(void *graph) { return 1; }
struct tensor *ggml_graph_node(void *graph, int index) { return &node; }
const char *ggml_op_name(int op) { return op ? "FILL" : "NONE"; }
const char *ggml_type_name(int type) { return "f32"; }
size_t ggml_type_size(int type) { return 4; }
int64_t ggml_blck_size(int type) { return 1; }
size_t ggml_nbytes(const struct tensor *tensor) { return tensor->ne[0] * 4; }
const char *ggml_get_name(const struct tensor *tensor) { return check(tensor, &node, "tensor"), tensor->name; }
void *ggml_get_data(const struct tensor *tensor) { return tensor->data; }
void *ggml_backend_buffer_get_base(void *buffer) { return values; }
size_t ggml_backend_buffer_get_size(void *buffer) { return sizeof values; }
int ggml_backend_buffer_get_usage(void *buffer) { return 0; }
const char *ggml_backend_buffer_name(void *buffer) { return "CPU"; }
bool ggml_backend_buffer_is_host(void *buffer) { return true; }
int ggml_backend_sched_get_n_backends(struct scheduler *given) { return check(given, &scheduler, "scheduler"), given->n_backends; }
struct backend *ggml_backend_sched_get_backend(struct scheduler *given, int index) { return given->backends[index]; }
void *ggml_backend_get_device(struct backend *given) { return check(given, &backend, "backend"), given; }
void *ggml_backend_dev_backend_reg(void *device) { return device; }
void ggml_backend_cpu_set_abort_callback(struct backend *given, abort_callback callback, void *data) {
    check(given, &backend, "backend");
    given->callback = callback;
    given->data = data;
}
static void set_abort_callback(struct backend *given, abort_callback callback, void *data) {
    check(given, &backend, "backend");
    given->callback = callback;
    given->data = data;
}
void *ggml_backend_reg_get_proc_address(void *registry, const char *name) {
    if (strcmp(name, "ggml_backend_set_abort_callback"))
        return NULL;
#ifdef EXPORTED_SETTER
    return ggml_backend_cpu_set_abort_callback;
#else
    return set_abort_callback;
#endif
}
void ggml_backend_free(struct backend *given) {
    check(given, &backend, "backend");
    given->callback = NULL;
}
#endif
