/* A bare loop of read_sample() of h5bench's DLIO extension: what reading costs where nothing stands around it.
 *
 *   read_samples LIBHDF5 DATASET SAMPLES_PER_FILE RECORD_SIDE STEPS EPOCHS TRAIN_COUNT FILE...
 *
 * Of the files, TRAIN_COUNT are read for training, STEPS samples in each epoch, all samples of the others after it. The library
 * is the one that the benchmark loads, by the same means. Prints one line of JSON. */
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <time.h>

typedef int64_t hid_t;

#define FUNCTIONS(X) \
    X(hid_t, H5Fopen, (const char *, unsigned, hid_t)) \
    X(hid_t, H5Dopen2, (hid_t, const char *, hid_t)) \
    X(hid_t, H5Dget_space, (hid_t)) \
    X(hid_t, H5Screate_simple, (int, const uint64_t *, const uint64_t *)) \
    X(int, H5Sselect_hyperslab, (hid_t, int, const uint64_t *, const uint64_t *, const uint64_t *, const uint64_t *)) \
    X(int, H5Dread, (hid_t, hid_t, hid_t, hid_t, hid_t, void *)) \
    X(int, H5Sclose, (hid_t)) \
    X(int, H5Dclose, (hid_t)) \
    X(int, H5Fclose, (hid_t)) \
    X(int, H5open, (void))
#define DECLARE(answer, name, arguments) static answer(*name) arguments;
FUNCTIONS(DECLARE)

static hid_t u8;
static const char *dataset;
static uint64_t side, metadata_us, read_us, samples;

static void fail(const char *what) {
    fprintf(stderr, "read_samples: %s\n", what);
    exit(1);
}

static void load(const char *path) {
    void *library = dlopen(path, RTLD_NOW | RTLD_GLOBAL);
    if (!library) fail(dlerror());
#define FIND(answer, name, arguments) \
    if (!(*(void **)&name = dlsym(library, #name))) fail("no " #name);
    FUNCTIONS(FIND)
    if (H5open() < 0) fail("H5open");
    hid_t *constant = dlsym(library, "H5T_STD_U8LE_g");
    if (!constant) fail("no H5T_STD_U8LE");
    u8 = *constant;
}

static uint64_t now_us(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000;
}

static void read_sample(const char *path, uint64_t sample) {
    const uint64_t offset[3] = {sample, 0, 0}, count[3] = {1, side, side};
    uint64_t t1 = now_us();
    hid_t file = H5Fopen(path, 0, 0);
    hid_t data = H5Dopen2(file, dataset, 0);
    hid_t file_space = H5Dget_space(data);
    hid_t memory_space = H5Screate_simple(3, count, NULL);
    if (H5Sselect_hyperslab(file_space, 0, offset, NULL, count, NULL) < 0) fail(path);
    uint64_t t2 = now_us();
    void *bytes = malloc(side * side);
    uint64_t t3 = now_us();
    if (H5Dread(data, u8, memory_space, file_space, 0, bytes) < 0) fail(path);
    uint64_t t4 = now_us();
    free(bytes);
    uint64_t t5 = now_us();
    H5Sclose(memory_space);
    H5Sclose(file_space);
    H5Dclose(data);
    H5Fclose(file);
    uint64_t t6 = now_us();
    metadata_us += t2 - t1 + t6 - t5;
    read_us += t4 - t3;
    samples++;
}

static double seconds(struct timeval time) { return (double)time.tv_sec + (double)time.tv_usec / 1e6; }

int main(int argc, char **argv) {
    if (argc < 9) fail("usage: read_samples LIBHDF5 DATASET SAMPLES_PER_FILE RECORD_SIDE STEPS EPOCHS TRAIN_COUNT FILE...");
    dataset = argv[2];
    uint64_t per_file = strtoull(argv[3], NULL, 10), steps = strtoull(argv[5], NULL, 10), epochs = strtoull(argv[6], NULL, 10);
    uint64_t train = strtoull(argv[7], NULL, 10), files = (uint64_t)argc - 8;
    char **paths = argv + 8;
    side = strtoull(argv[4], NULL, 10);
    load(argv[1]);
    uint64_t began = now_us();
    for (uint64_t epoch = 0; epoch < epochs; epoch++) {
        for (uint64_t step = 0; step < steps; step++) read_sample(paths[step / per_file], step % per_file);
        for (uint64_t file = train; file < files; file++)
            for (uint64_t sample = 0; sample < per_file; sample++) read_sample(paths[file], sample);
    }
    uint64_t took = now_us() - began;
    struct rusage used;
    getrusage(RUSAGE_SELF, &used);
    printf("{\"samples\": %llu, \"seconds\": %.6f, \"cpu_seconds\": %.6f, \"metadata_seconds\": %.6f, \"read_seconds\": %.6f}\n",
           (unsigned long long)samples, (double)took / 1e6, seconds(used.ru_utime) + seconds(used.ru_stime),
           (double)metadata_us / 1e6, (double)read_us / 1e6);
    return 0;
}
