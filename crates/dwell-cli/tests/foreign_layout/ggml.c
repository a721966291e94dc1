// A ggml of one tensor, in the layout that the recorder knows or, with -DOTHER_LAYOUT, in another one.
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

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

static float values[8];
static struct tensor node = {
    .ne = {8, 1, 1, 1}, .nb = {4, 32, 32, 32}, .op = 1, .flags = 16, .data = values, .name = "result"};
int computations;

int ggml_graph_n_nodes(void *graph) { return 1; }
struct tensor *ggml_graph_node(void *graph, int index) { return &node; }
const char *ggml_op_name(int op) { return op ? "FILL" : "NONE"; }
const char *ggml_type_name(int type) { return "f32"; }
size_t ggml_type_size(int type) { return 4; }
int64_t ggml_blck_size(int type) { return 1; }
size_t ggml_nbytes(const struct tensor *tensor) { return tensor->ne[0] * 4; }
const char *ggml_get_name(const struct tensor *tensor) { return tensor->name; }
void *ggml_get_data(const struct tensor *tensor) { return tensor->data; }
void *ggml_backend_buffer_get_base(void *buffer) { return NULL; }
size_t ggml_backend_buffer_get_size(void *buffer) { return 0; }
int ggml_backend_buffer_get_usage(void *buffer) { return 0; }
const char *ggml_backend_buffer_name(void *buffer) { return "CPU"; }
bool ggml_backend_buffer_is_host(void *buffer) { return true; }
bool ggml_backend_sched_alloc_graph(void *scheduler, void *graph) { return true; }
int ggml_backend_sched_graph_compute_async(void *scheduler, void *graph) { return ++computations, 0; }
int ggml_backend_tensor_alloc(void *buffer, struct tensor *tensor, void *address) { return 0; }
void ggml_backend_tensor_set(struct tensor *tensor, const void *data, size_t offset, size_t size) {}
