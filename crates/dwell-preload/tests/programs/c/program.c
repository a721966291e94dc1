// Does what its arguments say: `open PATH`, `global PATH`, `close PATH`, `PATH FUNCTION`, `fork`; and prints what came of it.
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define MOST 8
static struct {
    const char *path;
    void *handle;
} libraries[MOST];

static void **handle_of(const char *path) {
    int place = 0;
    while (libraries[place].path && strcmp(libraries[place].path, path))
        place++;
    libraries[place].path = path;
    return &libraries[place].handle;
}

static void *symbol(const char *path, const char *name) {
    void *found = dlsym(*handle_of(path), name);
    if (!found) {
        printf("%s\n", dlerror());
        exit(3);
    }
    return found;
}

static int call(const char *path, const char *name) {
    if (!strcmp(name, "jump") || !strcmp(name, "pointer")) {
        void *scheduler = ((void *(*)(void))symbol(path, "scheduler"))();
        void *function = symbol(path, name);
        if (!strcmp(name, "pointer"))
            function = ((void *(*)(void))function)();
        static char graph;
        // One place for all libraries.
        return ((int (*)(void *, void *))function)(scheduler, &graph);
    }
    return ((int (*)(void))symbol(path, name))();
}

int main(int count, char **words) {
    setvbuf(stdout, NULL, _IOLBF, 0);
    for (int word = 1; word < count; word++) {
        if (!strcmp(words[word], "fork")) {
            pid_t child = fork();
            if (child) {
                int status;
                waitpid(child, &status, 0);
                printf("the child ended with %d\n", status);
            }
        } else if (!strcmp(words[word], "open") || !strcmp(words[word], "global")) {
            int scope = strcmp(words[word], "open") ? RTLD_GLOBAL : RTLD_LOCAL;
            const char *path = words[++word];
            if (!(*handle_of(path) = dlopen(path, RTLD_NOW | scope))) {
                printf("%s\n", dlerror());
                return 3;
            }
        } else if (!strcmp(words[word], "close")) {
            void **handle = handle_of(words[++word]);
            dlclose(*handle);
            *handle = NULL;
        } else {
            const char *path = words[word++];
            int status = call(path, words[word]);
            printf("%s: %d\n", words[word], status);
        }
    }
    return 0;
}
