/* Calls everything that forebay_hdf5.h declares, as a program in C does, and checks what came of it.
 *
 *   control_calls control FILE     pause, start, switch, prestage, wait, counters, and the calls of Cache VOL
 *   control_calls errors FOLDER    what HDF5 says of files that cannot be opened, line by line
 *   control_calls full FILE        writes more than the disk holds, and prints the error stack
 *   control_calls mpio FILE        writes and reads by MPI-IO, as one rank
 *   control_calls restart FOLDER   ends HDF5 while values of one file are on their way, starts it again, reads another file
 *
 * Its access to variables of libhdf5, such as H5E_VFL, is by copies in its own image (copy relocations).
 */
#include "forebay_hdf5.h"
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { COUNT = 1 << 18 };
static int values[COUNT], again[COUNT], factor = 7;
static hid_t file, rows, chunks;

#define NEED(holds)                                                                                                                \
    do {                                                                                                                           \
        if (!(holds)) {                                                                                                            \
            fprintf(stderr, "control_calls: line %d: %s\n", __LINE__, #holds);                                                     \
            H5Eprint2(H5E_DEFAULT, stderr);                                                                                        \
            exit(1);                                                                                                               \
        }                                                                                                                          \
    } while (0)

static void make(const char *path) {
    hsize_t extent = COUNT, chunk = COUNT / 16;
    for (int i = 0; i < COUNT; i++)
        values[i] = i * factor;
    hid_t space = H5Screate_simple(1, &extent, NULL), list = H5Pcreate(H5P_DATASET_CREATE);
    H5Pset_chunk(list, 1, &chunk);
    H5Pset_deflate(list, 1);
    NEED((file = H5Fcreate(path, H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT)) >= 0);
    rows = H5Dcreate2(file, "rows", H5T_NATIVE_INT, space, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
    chunks = H5Dcreate2(file, "chunks", H5T_NATIVE_INT, space, H5P_DEFAULT, list, H5P_DEFAULT);
    NEED(H5Dwrite(rows, H5T_NATIVE_INT, H5S_ALL, H5S_ALL, H5P_DEFAULT, values) >= 0);
    NEED(H5Dwrite(chunks, H5T_NATIVE_INT, H5S_ALL, H5S_ALL, H5P_DEFAULT, values) >= 0);
    NEED(H5Dclose(rows) >= 0 && H5Dclose(chunks) >= 0 && H5Pclose(list) >= 0 && H5Sclose(space) >= 0 && H5Fclose(file) >= 0);
    /* A file that was changed a moment ago is not cached. */
    usleep(100000);
}

static void open_all(const char *path, hid_t list) {
    NEED((file = H5Fopen(path, H5F_ACC_RDONLY, list)) >= 0);
    NEED((rows = H5Dopen2(file, "rows", H5P_DEFAULT)) >= 0 && (chunks = H5Dopen2(file, "chunks", H5P_DEFAULT)) >= 0);
}

static void close_all(void) {
    NEED(H5Dclose(rows) >= 0 && H5Dclose(chunks) >= 0 && H5Fclose(file) >= 0);
}

static void read_right(hid_t set) {
    memset(again, 0, sizeof again);
    NEED(H5Dread(set, H5T_NATIVE_INT, H5S_ALL, H5S_ALL, H5P_DEFAULT, again) >= 0);
    NEED(memcmp(values, again, sizeof values) == 0);
}

static forebay_hdf5_stats_t counters(void) {
    forebay_hdf5_stats_t now;
    NEED(forebay_hdf5_stats(file, &now) >= 0);
    return now;
}

/* Caching for one file by its access list. */
static void by_list(const char *path) {
    bool off = false, found = true, on = true;
    hid_t list = H5Pcreate(H5P_FILE_ACCESS);
    NEED(H5Pget_fapl_cache(list, "HDF5_CACHE_RD", &found) < 0);
    NEED(H5Pset_fapl_cache(list, "HDF5_CACHE_RD", &off) >= 0 && H5Pget_fapl_cache(list, "HDF5_CACHE_RD", &found) >= 0 && !found);
    H5E_BEGIN_TRY { NEED(H5Pset_fapl_cache(list, "HDF5_CACHE_XY", &off) < 0); } H5E_END_TRY
    open_all(path, list);
    read_right(rows);
    read_right(rows);
    NEED(counters().hit == 0 && counters().kept == 0);
    close_all();
    NEED(H5Pset_fapl_cache(list, "HDF5_CACHE_RD", &on) >= 0 && H5Pget_fapl_cache(list, "HDF5_CACHE_RD", &found) >= 0 && found);
    open_all(path, list);
    read_right(rows);
    NEED(forebay_hdf5_wait(file, 300) == 1 && counters().kept >= sizeof values);
    close_all();
    H5Pclose(list);
}

static void control(const char *path) {
    make(path);
    by_list(path);
    open_all(path, H5P_DEFAULT);
    forebay_hdf5_stats_t before = counters();
    NEED(before.quota > 0);
    NEED(forebay_hdf5_pause(file) >= 0);
    read_right(rows);
    NEED(counters().hit == before.hit);
    NEED(forebay_hdf5_start(file) >= 0);
    read_right(rows);
    NEED(counters().hit == before.hit + sizeof values);
    /* Switched for this file alone. */
    NEED(forebay_hdf5_switch(file, 0) >= 0);
    read_right(rows);
    NEED(counters().hit == before.hit + sizeof values);
    NEED(forebay_hdf5_switch(file, 1) >= 0);
    /* A part of a data set, then all of it, then the rest behind the program. */
    hsize_t extent = COUNT, start = 0, count = COUNT / 16;
    hid_t   part = H5Screate_simple(1, &extent, NULL);
    H5Sselect_hyperslab(part, H5S_SELECT_SET, &start, NULL, &count, NULL);
    before = counters();
    NEED(forebay_hdf5_prestage(chunks, part, 1) >= 0 && forebay_hdf5_wait(chunks, 300) == 1);
    NEED(counters().filled - before.filled == sizeof values / 16);
    NEED(H5Dprefetch(chunks, H5S_ALL, H5P_DEFAULT) >= 0 && forebay_hdf5_wait(file, 300) == 1);
    NEED(counters().filled - before.filled == sizeof values);
    NEED(H5Dprefetch_async(rows, H5S_ALL, H5P_DEFAULT, H5ES_NONE) >= 0 && forebay_hdf5_wait(rows, 300) == 1);
    before = counters();
    read_right(chunks);
    read_right(rows);
    NEED(counters().hit == before.hit + 2 * sizeof values && counters().passed == before.passed);
    NEED(H5Fcache_async_op_pause(file) >= 0 && H5Fcache_async_op_start(file) >= 0);
    NEED(H5Dcache_async_op_pause(rows) >= 0 && H5Dcache_async_op_start(rows) >= 0);
    read_right(rows);
    NEED(counters().hit == before.hit + 3 * sizeof values);
    H5Sclose(part);
    close_all();
    puts("all calls did what they say");
}

static herr_t tell(unsigned number, const H5E_error2_t *error, void *context) {
    char major[100] = "?", minor[100] = "?";
    (void)number, (void)context;
    H5Eget_msg(error->maj_num, NULL, major, sizeof major);
    H5Eget_msg(error->min_num, NULL, minor, sizeof minor);
    printf("%s / %s: %s%s\n", major, minor, error->desc, error->maj_num == H5E_VFL || error->maj_num == H5E_IO ? " *" : "");
    return 0;
}

static void errors(const char *folder) {
    char path[4096];
    H5Eset_auto2(H5E_DEFAULT, NULL, NULL);
    for (int way = 0; way < 3; way++) {
        snprintf(path, sizeof path, "%s/%s", folder, way == 0 ? "absent.h5" : way == 1 ? "no/such/folder.h5" : "text.h5");
        hid_t opened = way == 1 ? H5Fcreate(path, H5F_ACC_EXCL, H5P_DEFAULT, H5P_DEFAULT) : H5Fopen(path, H5F_ACC_RDONLY, H5P_DEFAULT);
        printf("%s %d\n", way == 1 ? "create" : "open", opened >= 0);
        H5Ewalk2(H5E_DEFAULT, H5E_WALK_DOWNWARD, tell, NULL);
    }
}

static void full(const char *path) {
    hsize_t extent = 64 * COUNT;
    int    *all = calloc(64, sizeof values);
    H5Eset_auto2(H5E_DEFAULT, NULL, NULL);
    NEED((file = H5Fcreate(path, H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT)) >= 0);
    hid_t  space = H5Screate_simple(1, &extent, NULL);
    hid_t  set = H5Dcreate2(file, "x", H5T_NATIVE_INT, space, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
    herr_t answer = H5Dwrite(set, H5T_NATIVE_INT, H5S_ALL, H5S_ALL, H5P_DEFAULT, all);
    if (answer >= 0)
        answer = H5Fflush(file, H5F_SCOPE_GLOBAL);
    printf("failed %d\n", answer < 0);
    H5Ewalk2(H5E_DEFAULT, H5E_WALK_UPWARD, tell, NULL);
    fflush(stdout);
    /* What is staged stays: it can be brought there later. */
    _exit(0);
}

static void mpio(const char *path) {
    MPI_Init(NULL, NULL);
    hid_t list = H5Pcreate(H5P_FILE_ACCESS);
    NEED(H5Pset_fapl_mpio(list, MPI_COMM_WORLD, MPI_INFO_NULL) >= 0);
    make(path);
    for (int round = 0; round < 2; round++) {
        open_all(path, list);
        read_right(rows);
        close_all();
    }
    H5Pclose(list);
    MPI_Finalize();
}

static void restart(const char *folder) {
    char one[4096], other[4096];
    snprintf(one, sizeof one, "%s/one.h5", folder);
    snprintf(other, sizeof other, "%s/other.h5", folder);
    make(one);
    factor = 11;
    make(other);
    open_all(one, H5P_DEFAULT);
    NEED(H5Dprefetch_async(rows, H5S_ALL, H5P_DEFAULT, H5ES_NONE) >= 0 && forebay_hdf5_pause(file) >= 0);
    close_all();
    /* Files are numbered from the start again, and both have their data sets at the same places. */
    NEED(H5close() >= 0 && H5open() >= 0);
    open_all(other, H5P_DEFAULT);
    NEED(forebay_hdf5_start(file) >= 0);
    for (int round = 0; round < 3; round++)
        read_right(rows);
    close_all();
}

int main(int count, char **words) {
    if (count != 3)
        return 2;
    if (!strcmp(words[1], "control"))
        control(words[2]);
    else if (!strcmp(words[1], "errors"))
        errors(words[2]);
    else if (!strcmp(words[1], "full"))
        full(words[2]);
    else if (!strcmp(words[1], "restart"))
        restart(words[2]);
    else if (!strcmp(words[1], "mpio"))
        mpio(words[2]);
    else
        return 2;
    return 0;
}
