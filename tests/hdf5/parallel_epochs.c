/* Ranks of an MPI job read a data set in epochs: first each its own part, later all of it in shuffled blocks.
 *
 *   mpiexec -n 4 parallel_epochs FILE [OPTION VALUE]…
 *
 *   --epochs N         epochs [3]
 *   --kib N            KiB of a block, which one H5Dread asks for [1024]
 *   --how NAME         parts: every rank reads another part of each epoch; everything: every rank reads all blocks of every epoch;
 *                      uneven: rank r makes only one read in r + 1 of its part [parts]
 *   --collective 0|1   collective transfers, not for uneven [0]
 *   --reopen 0|1       the file is opened anew for each epoch [0]
 *   --first FILE       another file, which is opened and closed before [none]
 *   --compute-ms N     time without any call of MPI or HDF5 that rank 0 takes in each later epoch [0]
 *
 * The data set is called x: int32, one dimension, value_at(index). Rank 0 prints one line of JSON: seconds of the slowest rank in
 * each epoch, how many values were wrong, and the connector's counters, added up over all ranks; zeros without it.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <hdf5.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { COUNTERS = 10 };

typedef struct {
    const char *file, *first, *how;
    int epochs, kib, collective, reopen, compute_ms, rank, ranks;
} settings_t;

static void need(int holds, const char *what) {
    if (holds)
        return;
    fprintf(stderr, "parallel_epochs: %s\n", what);
    MPI_Abort(MPI_COMM_WORLD, 1);
}

static int value_at(size_t index) { return (int)(index * 2654435761u & 0x7fffffff); }

/* The order of an epoch, the same on all ranks: that of the file first, shuffled then. */
static void shuffle(size_t *order, size_t count, int epoch) {
    unsigned long long state = 88172645463325252ull + (unsigned)epoch;
    for (size_t index = 0; index < count; index++)
        order[index] = index;
    for (size_t index = count; epoch > 0 && index > 1; index--) {
        state = state * 6364136223846793005ull + 1442695040888963407ull;
        size_t other = (size_t)(state >> 33) % index, kept = order[index - 1];
        order[index - 1] = order[other];
        order[other] = kept;
    }
}

/* Reads block number `block`; gives how many values are wrong. */
static long read_block(hid_t data, const settings_t *set, hid_t transfer, size_t total, size_t block, int *values) {
    size_t part = (size_t)set->kib * 1024 / sizeof(int), from = block * part;
    hsize_t start = from, count = from + part <= total ? part : total - from;
    hid_t memory = H5Screate_simple(1, &count, NULL), space = H5Dget_space(data);
    H5Sselect_hyperslab(space, H5S_SELECT_SET, &start, NULL, &count, NULL);
    need(H5Dread(data, H5T_NATIVE_INT, memory, space, transfer, values) >= 0, "H5Dread");
    H5Sclose(space);
    H5Sclose(memory);
    long wrong = 0;
    for (size_t index = 0; index < count; index++)
        wrong += values[index] != value_at(from + index);
    return wrong;
}

static long read_epoch(hid_t file, const settings_t *set, hid_t transfer, int epoch) {
    hid_t data = H5Dopen2(file, "x", H5P_DEFAULT), space = H5Dget_space(data);
    need(data >= 0, "no data set x");
    size_t total = (size_t)H5Sget_simple_extent_npoints(space), part = (size_t)set->kib * 1024 / sizeof(int);
    size_t blocks = (total + part - 1) / part, *order = malloc(blocks * sizeof *order);
    int *values = malloc(part * sizeof *values);
    need(order != NULL && values != NULL, "no memory");
    shuffle(order, blocks, epoch);
    int is_everything = strcmp(set->how, "everything") == 0, is_uneven = strcmp(set->how, "uneven") == 0;
    /* In the file's order each rank has a stretch of it. */
    size_t each = blocks / (size_t)set->ranks, first = is_everything ? 0 : each * (size_t)set->rank;
    size_t count = is_everything ? blocks : each;
    if (!is_everything && !set->collective && set->rank == set->ranks - 1)
        count = blocks - first;
    long wrong = 0;
    for (size_t index = 0; index < count; index++)
        if (!is_uneven || index % (size_t)(set->rank + 1) == 0)
            wrong += read_block(data, set, transfer, total, order[first + index], values);
    free(values);
    free(order);
    H5Sclose(space);
    H5Dclose(data);
    return wrong;
}

static void compute(const settings_t *set, int epoch) {
    struct timespec left = {set->compute_ms / 1000, (set->compute_ms % 1000) * 1000000L};
    if (epoch > 0 && set->rank == 0)
        nanosleep(&left, NULL);
}

static void tell(const settings_t *set, const double *seconds, long wrong) {
    unsigned long long counts[COUNTERS] = {0}, sums[COUNTERS];
    void (*ask)(unsigned long long *) = NULL;
    const char *name = getenv("CONNECTOR");
    void *connector = name ? dlopen(name, RTLD_NOLOAD | RTLD_LAZY) : NULL;
    if (connector)
        *(void **)&ask = dlsym(connector, "forebay_hdf5_parallel_stats");
    if (ask)
        ask(counts);
    MPI_Reduce(counts, sums, COUNTERS, MPI_UNSIGNED_LONG_LONG, MPI_SUM, 0, MPI_COMM_WORLD);
    long all_wrong;
    MPI_Reduce(&wrong, &all_wrong, 1, MPI_LONG, MPI_SUM, 0, MPI_COMM_WORLD);
    if (set->rank != 0)
        return;
    printf("{\"epochs_s\": [");
    for (int epoch = 0; epoch < set->epochs; epoch++)
        printf("%s%.6f", epoch ? ", " : "", seconds[epoch]);
    printf("], \"wrong\": %ld, \"served_collectives\": %llu, \"passed_collectives\": %llu, \"shared_bytes\": %llu, \"host_bytes\": %llu, "
           "\"remote_bytes\": %llu, \"remote_faults\": %llu}\n",
           all_wrong, sums[3], sums[4], sums[6], sums[7], sums[8], sums[9]);
}

static void parse(settings_t *set, int argc, char **argv) {
    for (int at = 2; at + 1 < argc; at += 2) {
        int number = atoi(argv[at + 1]);
        if (strcmp(argv[at], "--epochs") == 0)
            set->epochs = number;
        else if (strcmp(argv[at], "--kib") == 0)
            set->kib = number;
        else if (strcmp(argv[at], "--first") == 0)
            set->first = argv[at + 1];
        else if (strcmp(argv[at], "--how") == 0)
            set->how = argv[at + 1];
        else if (strcmp(argv[at], "--collective") == 0)
            set->collective = number;
        else if (strcmp(argv[at], "--reopen") == 0)
            set->reopen = number;
        else if (strcmp(argv[at], "--compute-ms") == 0)
            set->compute_ms = number;
        else
            need(0, argv[at]);
    }
}

int main(int argc, char **argv) {
    settings_t set = {NULL, NULL, "parts", 3, 1024, 0, 0, 0, 0, 1};
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &set.rank);
    MPI_Comm_size(MPI_COMM_WORLD, &set.ranks);
    need(argc > 1, "usage: parallel_epochs FILE [OPTION VALUE]…");
    set.file = argv[1];
    parse(&set, argc, argv);
    hid_t fapl = H5Pcreate(H5P_FILE_ACCESS), transfer = H5Pcreate(H5P_DATASET_XFER);
    need(H5Pset_fapl_mpio(fapl, MPI_COMM_WORLD, MPI_INFO_NULL) >= 0, "the library is not parallel");
    H5Pset_dxpl_mpio(transfer, set.collective ? H5FD_MPIO_COLLECTIVE : H5FD_MPIO_INDEPENDENT);
    double *seconds = calloc((size_t)set.epochs, sizeof *seconds);
    long wrong = 0;
    hid_t file = set.first ? H5Fopen(set.first, H5F_ACC_RDONLY, fapl) : -1;
    if (set.first) {
        need(file >= 0 && H5Fclose(file) >= 0, "the first file cannot be opened");
        file = -1;
    }
    for (int epoch = 0; epoch < set.epochs; epoch++) {
        if (file < 0)
            file = H5Fopen(set.file, H5F_ACC_RDONLY, fapl);
        need(file >= 0, "the file cannot be opened");
        MPI_Barrier(MPI_COMM_WORLD);
        double began = MPI_Wtime();
        compute(&set, epoch);
        wrong += read_epoch(file, &set, transfer, epoch);
        double took = MPI_Wtime() - began;
        MPI_Allreduce(&took, &seconds[epoch], 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
        if (set.reopen || epoch + 1 == set.epochs) {
            need(H5Fclose(file) >= 0, "H5Fclose");
            file = -1;
        }
    }
    tell(&set, seconds, wrong);
    free(seconds);
    H5Pclose(transfer);
    H5Pclose(fapl);
    MPI_Finalize();
    return wrong != 0;
}
