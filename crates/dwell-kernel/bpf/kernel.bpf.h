// What the programs need of the kernel: the helpers they call and the fields they read.
//
// The loader finds each field in the running kernel's own types (CO-RE), so the structures name only what is used, and no
// header of any kernel is needed to compile.

#pragma once

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef int s32;
typedef unsigned long long u64;
typedef long long s64;
typedef _Bool bool;

#define SEC(name) __attribute__((section(name), used))
#define INLINE static inline __attribute__((always_inline))
#define FROM_KERNEL __attribute__((preserve_access_index))

// Maps are declared to the loader by the types of these members.
#define MAP_UINT(name, value) int(*name)[value]
#define MAP_TYPE(name, value) typeof(value) *name

enum { MAP_HASH = 1, MAP_ARRAY = 2, MAP_PERCPU_ARRAY = 6, MAP_LRU_HASH = 9 };
enum { UPDATE_ANY = 0, UPDATE_NOEXIST = 1 };

// Numbers of helpers belong to the kernel's interface and never change.
static void *(*const map_lookup)(void *map, const void *key) = (void *)1;
static long (*const map_update)(void *map, const void *key, const void *value, u64 flags) = (void *)2;
static long (*const map_delete)(void *map, const void *key) = (void *)3;
static u64 (*const now_ns)(void) = (void *)5;
static long (*const read_kernel)(void *target, u32 bytes, const void *source) = (void *)113;
static struct task_struct *(*const current_task)(void) = (void *)158;

#define FIELD_EXISTS(field) __builtin_preserve_field_info(field, 2)

enum { NAME_BYTES = 16 };

struct gendisk {
    int major;
    int first_minor;
} FROM_KERNEL;

struct request_queue {
    struct gendisk *disk;
} FROM_KERNEL;

struct request {
    struct request_queue *q;
    u32 cmd_flags;
    u32 __data_len;
} FROM_KERNEL;

// Before Linux 5.17 the request itself named the disk.
struct request___older {
    struct gendisk *rq_disk;
} FROM_KERNEL;

struct kernfs_node {
    u64 id;
} FROM_KERNEL;

struct cgroup {
    struct kernfs_node *kn;
} FROM_KERNEL;

struct css_set {
    struct cgroup *dfl_cgrp;
} FROM_KERNEL;

// Time for which a thread computed, brought up to date before each switch.
struct sched_entity {
    u64 sum_exec_runtime;
} FROM_KERNEL;

struct task_struct {
    u32 __state;
    u32 flags;
    s32 pid;
    s32 tgid;
    u64 start_time;
    struct task_struct *real_parent;
    struct task_struct *group_leader;
    struct css_set *cgroups;
    struct sched_entity se;
    char comm[NAME_BYTES];
} FROM_KERNEL;

// Before Linux 5.14.
struct task_struct___older {
    long state;
} FROM_KERNEL;

struct sock_common {
    u16 skc_family;
} FROM_KERNEL;

struct sock {
    struct sock_common __sk_common;
    u16 sk_protocol;
} FROM_KERNEL;
