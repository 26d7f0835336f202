/* Ranks of an MPI job do the same things to one file with parallel HDF5, with or without a connector: what they print and what
 * the file holds must not depend on it.
 *
 *   mpiexec -n N parallel_cases writes FILE     all layouts, transfers, selections and types
 *   mpiexec -n N parallel_cases resize FILE     resize, append, shrink, delete, create anew
 *   mpiexec -n N parallel_cases reads FILE      reads of what `writes` has made, twice, each rank as often as it likes
 *   mpiexec -n N parallel_cases rounds FILE N   flushes N rounds, says so, and writes on until it is killed
 *   mpiexec -n N parallel_cases rounds FILE N close   the same, closed instead
 *
 * Each line of output begins with the rank. Counters of the connector, whose library CONNECTOR names, go to the file
 * that COUNTERS names, one line per rank.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <hdf5.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int rank, ranks;
static hid_t together, alone;

static void need(int holds, const char *what) {
    if (holds)
        return;
    fprintf(stderr, "parallel_cases: rank %d: %s\n", rank, what);
    MPI_Abort(MPI_COMM_WORLD, 1);
    _exit(1);
}

static unsigned long long mix(unsigned long long hash, const void *bytes, size_t len) {
    const unsigned char *byte = bytes;
    for (size_t i = 0; i < len; i++)
        hash = (hash ^ byte[i]) * 1099511628211ull;
    return hash;
}

static unsigned next(unsigned *seed) {
    *seed = *seed * 1664525u + 1013904223u;
    return *seed >> 8;
}

static hid_t open_file(const char *name, int how, int latest) {
    hid_t fapl = H5Pcreate(H5P_FILE_ACCESS);
    H5Pset_fapl_mpio(fapl, MPI_COMM_WORLD, MPI_INFO_NULL);
    if (latest)
        H5Pset_libver_bounds(fapl, H5F_LIBVER_V18, H5F_LIBVER_LATEST);
    hid_t file = how < 0 ? H5Fcreate(name, H5F_ACC_TRUNC, H5P_DEFAULT, fapl)
                         : H5Fopen(name, how ? H5F_ACC_RDWR : H5F_ACC_RDONLY, fapl);
    need(file >= 0, "the file cannot be opened");
    H5Pclose(fapl);
    return file;
}

typedef struct {
    const char *name;
    hid_t kind;
    hsize_t extents[2], largest[2], chunk[2];
    int fill, deflate;
} shape_t;

static hid_t create(hid_t file, const char *name, const shape_t *shape) {
    hid_t space = H5Screate_simple(2, shape->extents, shape->largest[0] ? shape->largest : NULL);
    hid_t list = H5Pcreate(H5P_DATASET_CREATE);
    int value = 7;
    if (shape->chunk[0])
        H5Pset_chunk(list, 2, shape->chunk);
    if (shape->fill)
        H5Pset_fill_value(list, H5T_NATIVE_INT, &value);
    if (shape->deflate)
        H5Pset_deflate(list, 1);
    hid_t made = H5Dcreate2(file, name, shape->kind, space, H5P_DEFAULT, list, H5P_DEFAULT);
    need(made >= 0, "a data set cannot be made");
    H5Pclose(list);
    H5Sclose(space);
    return made;
}

/* What this rank selects of a data set: its own part, by one of several ways. Gives how many elements. */
static hssize_t select_part(hid_t space, const hsize_t *extents, int way) {
    hsize_t r = (hsize_t)rank, n = (hsize_t)ranks, rows = extents[0], columns = extents[1];
    hsize_t one[2] = {1, 1};
    if (way == 0) { /* a block of rows */
        hsize_t from = rows * r / n, to = rows * (r + 1) / n, start[2] = {from, 0}, count[2] = {to - from, columns};
        if (to == from)
            H5Sselect_none(space);
        else
            H5Sselect_hyperslab(space, H5S_SELECT_SET, start, NULL, count, NULL);
    } else if (way == 1) { /* every n-th row, without the first and last column */
        hsize_t mine = (rows + n - 1 - r) / n, start[2] = {r, 1}, stride[2] = {n, 1}, count[2] = {mine, 1};
        hsize_t block[2] = {1, columns - 2};
        if (mine == 0)
            H5Sselect_none(space);
        else
            H5Sselect_hyperslab(space, H5S_SELECT_SET, start, stride, count, block);
    } else if (way == 2) { /* a block of columns, every second row */
        hsize_t from = columns * r / n, to = columns * (r + 1) / n;
        hsize_t start[2] = {0, from}, stride[2] = {2, 1}, count[2] = {(rows + 1) / 2, to - from};
        H5Sselect_hyperslab(space, H5S_SELECT_SET, start, stride, count, one);
    } else if (way == 3) { /* points, downwards, of rows that are this rank's */
        hsize_t points[64][2];
        size_t found = 0;
        for (hsize_t row = rows; row-- > 0 && found < 64;)
            if (row % n == r)
                points[found][0] = row, points[found++][1] = (row * 5 + 3) % columns;
        if (found == 0)
            H5Sselect_none(space);
        else
            H5Sselect_elements(space, H5S_SELECT_SET, found, &points[0][0]);
    } else if (way == 4) { /* two boxes of this rank's rows, united */
        hsize_t from = rows * r / n, to = rows * (r + 1) / n, height = (to - from + 1) / 2;
        hsize_t start[2] = {from, 0}, count[2] = {height, columns / 3}, again[2] = {from, columns / 2};
        if (to == from)
            H5Sselect_none(space);
        else {
            H5Sselect_hyperslab(space, H5S_SELECT_SET, start, NULL, count, NULL);
            H5Sselect_hyperslab(space, H5S_SELECT_OR, again, NULL, count, NULL);
        }
    } else if (way == 5) { /* all of it by the first rank, nothing by the others */
        if (rank == 0)
            H5Sselect_all(space);
        else
            H5Sselect_none(space);
    }
    return H5Sget_select_npoints(space);
}

/* Memory for `count` elements: side by side, or every second one of an array, or within a larger box. */
static hid_t memory_of(hssize_t count, int kind, size_t *room) {
    hsize_t all = (hsize_t)(count > 0 ? count : 1), start = 1, stride = 2, n = all;
    if (kind == 0) {
        *room = all;
        hid_t space = H5Screate_simple(1, &all, NULL);
        if (count == 0)
            H5Sselect_none(space);
        return space;
    }
    hsize_t wide = all * 2 + 3;
    *room = wide;
    hid_t space = H5Screate_simple(1, &wide, NULL);
    if (count == 0)
        H5Sselect_none(space);
    else
        H5Sselect_hyperslab(space, H5S_SELECT_SET, &start, &stride, &n, NULL);
    return space;
}

static void write_part(hid_t data, const hsize_t *extents, int way, int memory, hid_t kind, hid_t transfer, unsigned seed) {
    hid_t space = H5Dget_space(data);
    hssize_t count = select_part(space, extents, way);
    size_t room, len = H5Tget_size(kind);
    hid_t held = memory_of(count, memory, &room);
    unsigned char *values = malloc(room * len);
    seed = seed * 977u + (unsigned)rank;
    int is_float = H5Tget_class(kind) == H5T_FLOAT;
    for (size_t i = 0; i < room; i++) {
        unsigned value = next(&seed);
        if (is_float && len == 8)
            ((double *)values)[i] = value * 0.5;
        else if (is_float)
            ((float *)values)[i] = (float)value;
        else if (len == 8)
            ((long long *)values)[i] = value - 5000000ll;
        else if (len == 2)
            ((short *)values)[i] = (short)value;
        else
            ((int *)values)[i] = (int)value - 5000000;
    }
    need(H5Dwrite(data, kind, held, space, transfer, values) >= 0, "H5Dwrite");
    memset(values, 0x5a, room * len); /* the buffer is the program's again */
    free(values);
    H5Sclose(held);
    H5Sclose(space);
}

static void read_part(hid_t data, const char *name, const hsize_t *extents, int way, int memory, hid_t kind, hid_t transfer) {
    hid_t space = H5Dget_space(data);
    hssize_t count = way < 0 ? (hssize_t)(extents[0] * extents[1]) : select_part(space, extents, way);
    size_t room, len = H5Tget_size(kind);
    hid_t held = memory_of(count, memory, &room);
    unsigned char *values = malloc(room * len);
    memset(values, 0x33, room * len);
    need(H5Dread(data, kind, held, space, transfer, values) >= 0, "H5Dread");
    printf("%d %s %d %d %zu %016llx\n", rank, name, way, memory, len, mix(14695981039346656037ull, values, room * len));
    free(values);
    H5Sclose(held);
    H5Sclose(space);
}

static shape_t SHAPES[] = {
    {"plain", 0, {61, 40}, {0, 0}, {0, 0}, 1, 0},
    {"filled", 0, {61, 40}, {0, 0}, {0, 0}, 1, 0},
    {"chunks", 0, {61, 40}, {0, 0}, {8, 16}, 1, 0},
    {"rows", 0, {61, 40}, {0, 0}, {4, 40}, 1, 0},
    {"large", 0, {61, 40}, {H5S_UNLIMITED, H5S_UNLIMITED}, {64, 64}, 1, 0},
    {"grows", 0, {61, 40}, {H5S_UNLIMITED, 40}, {8, 16}, 1, 0},
    {"wide", 0, {61, 40}, {61, H5S_UNLIMITED}, {8, 16}, 1, 0},
    {"both", 0, {61, 40}, {H5S_UNLIMITED, H5S_UNLIMITED}, {8, 16}, 1, 0},
    {"deflated", 0, {61, 40}, {0, 0}, {8, 16}, 1, 1},
};
enum { SHAPE_COUNT = sizeof SHAPES / sizeof *SHAPES, WAYS = 6 };

static void writes(const char *name, int latest) {
    hid_t file = open_file(name, -1, latest);
    hid_t kinds[3] = {H5T_NATIVE_INT, H5T_IEEE_F32BE, H5T_STD_I16LE};
    hid_t memories[3][2] = {{H5T_NATIVE_INT, H5T_NATIVE_LLONG}, {H5T_NATIVE_DOUBLE, H5T_NATIVE_FLOAT}, {H5T_NATIVE_SHORT, H5T_NATIVE_INT}};
    unsigned seed = 1;
    for (int s = 0; s < SHAPE_COUNT; s++)
        for (int k = 0; k < 3; k += 1 + s % 2) {
            if (k > 0 && SHAPES[s].deflate)
                continue;
            char full[64];
            snprintf(full, sizeof full, "%s%d", SHAPES[s].name, k);
            shape_t shape = SHAPES[s];
            shape.kind = kinds[k];
            hid_t data = create(file, full, &shape);
            for (int way = 0; way < WAYS; way++) {
                /* HDF5 itself cannot write points, or other types, through filters together. */
                if (shape.deflate && (way == 3 || way == 5))
                    continue;
                hid_t transfer = shape.deflate || (way + k) % 2 ? together : alone;
                write_part(data, shape.extents, way, (way + s) % 2, memories[k][shape.deflate ? 0 : (way + s + k) % 2], transfer, seed++);
                /* Before others write the same elements MPI-IO wants the file in order. */
                if (way == WAYS - 2)
                    H5Fflush(file, H5F_SCOPE_GLOBAL);
                else
                    MPI_Barrier(MPI_COMM_WORLD);
            }
            /* Every rank reads everything, as often as its number says. */
            MPI_Barrier(MPI_COMM_WORLD);
            for (int again = 0; again <= rank; again++)
                read_part(data, full, shape.extents, -1, 0, kinds[k], alone);
            read_part(data, full, shape.extents, 2, 1, memories[k][0], together);
            H5Dclose(data);
        }
    need(H5Fclose(file) >= 0, "H5Fclose");
}

static void resize(const char *name, int latest) {
    hid_t file = open_file(name, -1, latest);
    for (int s = 5; s < 8; s++) {
        shape_t shape = SHAPES[s];
        shape.kind = H5T_NATIVE_INT;
        hid_t data = create(file, shape.name, &shape);
        write_part(data, shape.extents, 0, 0, H5T_NATIVE_INT, alone, 100 + s);
        MPI_Barrier(MPI_COMM_WORLD);
        hsize_t extents[2] = {61, 40};
        int axis = s == 6 ? 1 : 0;
        for (int step = 0; step < 4; step++) {
            extents[axis] += step == 2 ? -23 : 17; /* append, append, shrink, append */
            need(H5Dset_extent(data, extents) >= 0, "H5Dset_extent");
            /* Parallel HDF5 keeps chunks that were cut in its cache and writes them over what comes next, unless they are flushed. */
            need(step != 2 || H5Fflush(file, H5F_SCOPE_GLOBAL) >= 0, "H5Fflush");
            if (step != 2) {
                /* Only what is new. */
                hid_t space = H5Dget_space(data);
                hsize_t start[2] = {0, 0}, count[2] = {extents[0], extents[1]};
                start[axis] = extents[axis] - 17;
                count[axis] = 17;
                hsize_t other = 1 - axis, each = extents[other] / (hsize_t)ranks;
                start[other] = each * (hsize_t)rank;
                count[other] = each;
                H5Sselect_hyperslab(space, H5S_SELECT_SET, start, NULL, count, NULL);
                int *values = malloc(17 * each * sizeof *values);
                for (hsize_t i = 0; i < 17 * each; i++)
                    values[i] = (int)(i + 1000 * (hsize_t)(rank + 10 * step));
                hsize_t len = 17 * each;
                hid_t held = H5Screate_simple(1, &len, NULL);
                need(H5Dwrite(data, H5T_NATIVE_INT, held, space, step % 2 ? together : alone, values) >= 0, "H5Dwrite");
                free(values);
                H5Sclose(held);
                H5Sclose(space);
            }
            MPI_Barrier(MPI_COMM_WORLD);
            read_part(data, shape.name, extents, -1, 0, H5T_NATIVE_INT, step % 2 ? alone : together);
            MPI_Barrier(MPI_COMM_WORLD);
        }
        H5Dclose(data);
        /* One that is gone leaves its place to the next. */
        shape_t gone = {"gone", H5T_NATIVE_INT, {61, 40}, {0, 0}, {0, 0}, 1, 0};
        hid_t first = create(file, "gone", &gone);
        write_part(first, gone.extents, 0, 1, H5T_NATIVE_INT, alone, 300);
        H5Dclose(first);
        /* HDF5 itself does not wait for the writes of other ranks before it deletes. */
        MPI_Barrier(MPI_COMM_WORLD);
        need(H5Ldelete(file, "gone", H5P_DEFAULT) >= 0, "H5Ldelete");
        char next_name[32];
        snprintf(next_name, sizeof next_name, "after%d", s);
        hid_t second = create(file, next_name, &gone);
        write_part(second, gone.extents, 2, 0, H5T_NATIVE_INT, alone, 301);
        H5Dclose(second);
        MPI_Barrier(MPI_COMM_WORLD);
        char copied[32];
        snprintf(copied, sizeof copied, "copied%d", s);
        need(H5Ocopy(file, next_name, file, copied, H5P_DEFAULT, H5P_DEFAULT) >= 0, "H5Ocopy");
    }
    need(H5Fclose(file) >= 0, "H5Fclose");
}

static void reads(const char *name, int write_too) {
    hid_t file = open_file(name, write_too, 0);
    for (int epoch = 0; epoch < 3; epoch++)
        for (int s = 0; s < SHAPE_COUNT; s++) {
            char full[64];
            snprintf(full, sizeof full, "%s0", SHAPES[s].name);
            hid_t data = H5Dopen2(file, full, H5P_DEFAULT);
            for (int way = -1; way < WAYS; way++) {
                read_part(data, full, SHAPES[s].extents, way, (way + 1 + epoch) % 2, H5T_NATIVE_INT, together);
                for (int again = 0; again < (rank * 3 + way + 1) % 3; again++)
                    read_part(data, full, SHAPES[s].extents, way, 1, way % 2 ? H5T_NATIVE_DOUBLE : H5T_NATIVE_INT, alone);
            }
            if (write_too && epoch == 1 && !SHAPES[s].deflate) {
                /* One rank alone writes: the others must not read what they had. */
                if (rank == ranks - 1)
                    write_part(data, SHAPES[s].extents, 3, 0, H5T_NATIVE_INT, alone, 500);
                MPI_Barrier(MPI_COMM_WORLD);
            }
            H5Dclose(data);
        }
    need(H5Fclose(file) >= 0, "H5Fclose");
}

static void rounds(const char *name, int count, int is_closed) {
    hid_t file = open_file(name, -1, 0);
    shape_t shape = {"values", H5T_NATIVE_INT, {256, 4096}, {0, 0}, {0, 0}, 1, 0};
    hid_t data = create(file, "values", &shape);
    need(H5Fflush(file, H5F_SCOPE_GLOBAL) >= 0, "H5Fflush");
    for (int round = 1;; round++) {
        for (int part = 0; part < 4; part++)
            write_part(data, shape.extents, part % 2, 0, H5T_NATIVE_INT, alone, (unsigned)(round * 10 + part));
        if (round <= count)
            need(H5Fflush(file, H5F_SCOPE_GLOBAL) >= 0, "H5Fflush");
        if (round == count) {
            MPI_Barrier(MPI_COMM_WORLD);
            if (is_closed) {
                H5Dclose(data);
                need(H5Fclose(file) >= 0, "H5Fclose");
                return;
            }
            printf("%d flushed\n", rank);
            fflush(stdout);
        }
    }
}

static void tell_counters(void) {
    const char *name = getenv("COUNTERS");
    void (*ask)(unsigned long long *) = NULL;
    void *connector = name ? dlopen(getenv("CONNECTOR"), RTLD_NOLOAD | RTLD_LAZY) : NULL;
    if (connector)
        *(void **)&ask = dlsym(connector, "forebay_hdf5_parallel_stats");
    if (!ask)
        return;
    unsigned long long counts[10];
    ask(counts);
    FILE *out = fopen(name, "a");
    fprintf(out, "%d", rank);
    for (int index = 0; index < 10; index++)
        fprintf(out, " %llu", counts[index]);
    fprintf(out, "\n");
    fclose(out);
}

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    need(argc >= 3, "which case, and which file?");
    H5open();
    together = H5Pcreate(H5P_DATASET_XFER);
    H5Pset_dxpl_mpio(together, H5FD_MPIO_COLLECTIVE);
    alone = H5Pcreate(H5P_DATASET_XFER);
    int latest = argc > 3 && strcmp(argv[3], "latest") == 0;
    if (strcmp(argv[1], "writes") == 0)
        writes(argv[2], latest);
    else if (strcmp(argv[1], "resize") == 0)
        resize(argv[2], latest);
    else if (strcmp(argv[1], "reads") == 0)
        reads(argv[2], argc > 3 && strcmp(argv[3], "write") == 0);
    else if (strcmp(argv[1], "rounds") == 0)
        rounds(argv[2], atoi(argv[3]), argc > 4);
    else
        need(0, "no such case");
    tell_counters();
    H5Pclose(together);
    H5Pclose(alone);
    MPI_Finalize();
    return 0;
}
