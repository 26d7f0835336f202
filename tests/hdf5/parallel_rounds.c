/* Ranks of an MPI job write rounds of a checkpoint with parallel HDF5, compute in between, read all back and compare.
 *
 *   mpiexec -n 4 parallel_rounds --check                    is the library what the tests need: parallel
 *   mpiexec -n 4 parallel_rounds FILE [OPTION VALUE]…
 *
 *   --rounds N         data sets to write, one per round [4]
 *   --mib N            MiB that each rank writes per round [8]
 *   --compute-ms N     pause after each round [0]
 *   --collective 0|1   collective transfers [1]
 *   --layout NAME      contiguous, chunked (allocated early), late, or gzip [contiguous]
 *   --epochs N         how often all is read back, each rank another rank's part [1]
 *
 * Rank 0 prints one line of JSON: seconds of the slowest rank in H5Dwrite, in H5Fclose, from the first write to the end of the
 * close without the pauses, and of each epoch of reads; wrong is the number of values that were not those written.
 */
#include <hdf5.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

typedef struct {
    const char *file, *layout;
    int rounds, mib, compute_ms, collective, epochs, rank, ranks;
} settings_t;

static void need(int holds, const char *what) {
    if (holds)
        return;
    fprintf(stderr, "parallel_rounds: %s\n", what);
    MPI_Abort(MPI_COMM_WORLD, 1);
}

static double slowest(double seconds) {
    double most;
    MPI_Allreduce(&seconds, &most, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    return most;
}

static void pause_ms(int ms) {
    struct timespec left = {ms / 1000, (ms % 1000) * 1000000L};
    while (nanosleep(&left, &left) != 0)
        ;
}

/* The value at `index` of the part of `rank` in `round`. */
static int value_at(int round, int rank, size_t index) {
    return (int)(((size_t)round * 1000003u + (size_t)rank * 7919u + index * 31u) & 0x7fffffff);
}

static int check_library(int rank) {
    hbool_t safe = 1;
    unsigned major, minor, release;
    need(H5is_library_threadsafe(&safe) >= 0 && H5get_libversion(&major, &minor, &release) >= 0, "no answer of the library");
    hid_t fapl = H5Pcreate(H5P_FILE_ACCESS);
    need(H5Pset_fapl_mpio(fapl, MPI_COMM_WORLD, MPI_INFO_NULL) >= 0, "the library is not parallel");
    H5Pclose(fapl);
    if (rank == 0)
        printf("HDF5 %u.%u.%u, parallel, %s\n", major, minor, release, safe ? "thread safe" : "not thread safe");
    return 0;
}

static hid_t create_data_set(hid_t file, const settings_t *set, int round, hid_t space, hsize_t part) {
    char name[32];
    snprintf(name, sizeof name, "round%d", round);
    hid_t dcpl = H5Pcreate(H5P_DATASET_CREATE);
    hsize_t chunk = part < (1 << 18) ? part : 1 << 18;
    if (strcmp(set->layout, "contiguous") != 0) {
        H5Pset_chunk(dcpl, 1, &chunk);
        int is_late = strcmp(set->layout, "late") == 0;
        H5Pset_alloc_time(dcpl, is_late ? H5D_ALLOC_TIME_INCR : H5D_ALLOC_TIME_EARLY);
    }
    H5Pset_fill_time(dcpl, H5D_FILL_TIME_NEVER);
    if (strcmp(set->layout, "gzip") == 0)
        H5Pset_deflate(dcpl, 1);
    hid_t made = H5Dcreate2(file, name, H5T_NATIVE_INT, space, H5P_DEFAULT, dcpl, H5P_DEFAULT);
    need(made >= 0, "a data set cannot be made");
    H5Pclose(dcpl);
    return made;
}

/* Writes all rounds; gives the seconds in H5Dwrite. */
static double write_rounds(hid_t file, const settings_t *set, hid_t transfer, size_t part) {
    double spent = 0;
    int *values = malloc(part * sizeof *values);
    need(values != NULL, "no memory");
    hsize_t total = (hsize_t)part * (hsize_t)set->ranks, start = (hsize_t)part * (hsize_t)set->rank, count = part;
    hid_t space = H5Screate_simple(1, &total, NULL), memory = H5Screate_simple(1, &count, NULL);
    H5Sselect_hyperslab(space, H5S_SELECT_SET, &start, NULL, &count, NULL);
    for (int round = 0; round < set->rounds; round++) {
        for (size_t index = 0; index < part; index++)
            values[index] = value_at(round, set->rank, index);
        hid_t made = create_data_set(file, set, round, space, part);
        double began = MPI_Wtime();
        need(H5Dwrite(made, H5T_NATIVE_INT, memory, space, transfer, values) >= 0, "H5Dwrite");
        spent += MPI_Wtime() - began;
        /* The buffer is the program's again. */
        memset(values, 0x5a, part * sizeof *values);
        need(H5Dclose(made) >= 0, "H5Dclose");
        pause_ms(set->compute_ms);
    }
    H5Sclose(space);
    H5Sclose(memory);
    free(values);
    return spent;
}

/* Reads the part of the rank `away` further on in all rounds; gives how many values are wrong. */
static long read_rounds(hid_t file, const settings_t *set, hid_t transfer, size_t part, int away) {
    long wrong = 0;
    int other = (set->rank + away) % set->ranks, *values = malloc(part * sizeof *values);
    need(values != NULL, "no memory");
    hsize_t start = (hsize_t)part * (hsize_t)other, count = part;
    hid_t memory = H5Screate_simple(1, &count, NULL);
    for (int round = 0; round < set->rounds; round++) {
        char name[32];
        snprintf(name, sizeof name, "round%d", round);
        hid_t found = H5Dopen2(file, name, H5P_DEFAULT), space = H5Dget_space(found);
        H5Sselect_hyperslab(space, H5S_SELECT_SET, &start, NULL, &count, NULL);
        need(H5Dread(found, H5T_NATIVE_INT, memory, space, transfer, values) >= 0, "H5Dread");
        for (size_t index = 0; index < part; index++)
            wrong += values[index] != value_at(round, other, index);
        H5Sclose(space);
        H5Dclose(found);
    }
    H5Sclose(memory);
    free(values);
    return wrong;
}

static int run(const settings_t *set) {
    size_t part = (size_t)set->mib * (1 << 20) / sizeof(int);
    hid_t fapl = H5Pcreate(H5P_FILE_ACCESS), transfer = H5Pcreate(H5P_DATASET_XFER);
    need(H5Pset_fapl_mpio(fapl, MPI_COMM_WORLD, MPI_INFO_NULL) >= 0, "the library is not parallel");
    H5Pset_dxpl_mpio(transfer, set->collective ? H5FD_MPIO_COLLECTIVE : H5FD_MPIO_INDEPENDENT);
    hid_t file = H5Fcreate(set->file, H5F_ACC_TRUNC, H5P_DEFAULT, fapl);
    need(file >= 0, "the file cannot be made");
    MPI_Barrier(MPI_COMM_WORLD);
    double began = MPI_Wtime();
    double in_write = slowest(write_rounds(file, set, transfer, part));
    double closing = MPI_Wtime();
    need(H5Fclose(file) >= 0, "H5Fclose");
    double ended = slowest(MPI_Wtime());
    double in_close = ended - slowest(closing), durable = ended - began - set->rounds * set->compute_ms / 1000.0;
    if (set->rank == 0)
        printf("{\"write_s\": %.6f, \"close_s\": %.6f, \"durable_s\": %.6f, \"read_s\": [", in_write, in_close, durable);
    file = H5Fopen(set->file, H5F_ACC_RDONLY, fapl);
    need(file >= 0, "the file cannot be opened");
    long wrong = 0, all_wrong;
    for (int epoch = 0; epoch < set->epochs; epoch++) {
        MPI_Barrier(MPI_COMM_WORLD);
        double start = MPI_Wtime();
        wrong += read_rounds(file, set, transfer, part, 1);
        double took = slowest(MPI_Wtime() - start);
        if (set->rank == 0)
            printf("%s%.6f", epoch ? ", " : "", took);
    }
    H5Fclose(file);
    MPI_Allreduce(&wrong, &all_wrong, 1, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
    if (set->rank == 0)
        printf("], \"wrong\": %ld, \"bytes\": %zu}\n", all_wrong, part * sizeof(int) * (size_t)set->ranks * (size_t)set->rounds);
    H5Pclose(transfer);
    H5Pclose(fapl);
    return all_wrong != 0;
}

static void parse(settings_t *set, int argc, char **argv) {
    for (int at = 2; at + 1 < argc; at += 2) {
        int number = atoi(argv[at + 1]);
        if (strcmp(argv[at], "--rounds") == 0)
            set->rounds = number;
        else if (strcmp(argv[at], "--mib") == 0)
            set->mib = number;
        else if (strcmp(argv[at], "--compute-ms") == 0)
            set->compute_ms = number;
        else if (strcmp(argv[at], "--collective") == 0)
            set->collective = number;
        else if (strcmp(argv[at], "--epochs") == 0)
            set->epochs = number;
        else if (strcmp(argv[at], "--layout") == 0)
            set->layout = argv[at + 1];
        else
            need(0, argv[at]);
    }
}

int main(int argc, char **argv) {
    settings_t set = {NULL, "contiguous", 4, 8, 0, 1, 1, 0, 1};
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &set.rank);
    MPI_Comm_size(MPI_COMM_WORLD, &set.ranks);
    need(argc > 1, "usage: parallel_rounds --check | FILE [OPTION VALUE]…");
    set.file = argv[1];
    parse(&set, argc, argv);
    int status = strcmp(argv[1], "--check") == 0 ? check_library(set.rank) : run(&set);
    MPI_Finalize();
    return status;
}
