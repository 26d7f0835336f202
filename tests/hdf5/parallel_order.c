/* Cases in which the order of what ranks do matters: two ranks at least, each case prints how many values are not what they have
 * to be, by rank 0.
 *
 *   mpiexec -n 2 parallel_order CASE FILE
 *
 *   flush      H5Fflush by a handle of a data set brings all into the file
 *   unlinked   a data set without links is written and closed, and its place gets another one with a fill value
 *   twice      rank 0 has a data set open twice that loses its link, is closed, and its place gets another one
 *   group      the same for a data set of a group that loses its link while rank 0 has it open twice
 *   anonymous  a data set is made without a link, written by rank 0, linked, and then written by all together
 *   serial     rank 0 makes the file on its own, then all open it by MPI-IO and write
 *   late       a rank writes after others have joined a collective read, and joins it with an empty selection
 *   alone      one rank calls H5Dflush
 *   weak       the file's handle is closed before its data set, which is written then
 *   async      a staged write of one rank, then an asynchronous one of another to the same bytes
 *   plain      all write and close
 *   full       rank 0 writes more than the file system has room for, after all have written some; the close may fail
 */
#include <fcntl.h>
#include <hdf5.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { COUNT = 1 << 18, NEW = -1, READ = 0, WRITE = 1 };

static int rank, ranks, is_weak, *values;
static const char *path;
static hid_t together;

static void need(int holds, const char *what) {
    if (holds)
        return;
    fprintf(stderr, "parallel_order: rank %d: %s\n", rank, what);
    MPI_Abort(MPI_COMM_WORLD, 1);
}

static hid_t open_file(int how) {
    hid_t list = H5Pcreate(H5P_FILE_ACCESS);
    H5Pset_fapl_mpio(list, MPI_COMM_WORLD, MPI_INFO_NULL);
    if (is_weak)
        H5Pset_fclose_degree(list, H5F_CLOSE_WEAK);
    hid_t file = how == NEW ? H5Fcreate(path, H5F_ACC_TRUNC, H5P_DEFAULT, list)
                            : H5Fopen(path, how == WRITE ? H5F_ACC_RDWR : H5F_ACC_RDONLY, list);
    H5Pclose(list);
    need(file >= 0, "the file cannot be opened");
    return file;
}

static hid_t make(hid_t file, const char *name, int fill) {
    hsize_t count = COUNT;
    hid_t space = H5Screate_simple(1, &count, NULL), list = H5Pcreate(H5P_DATASET_CREATE);
    if (fill >= 0) {
        H5Pset_fill_value(list, H5T_NATIVE_INT, &fill);
        H5Pset_fill_time(list, H5D_FILL_TIME_ALLOC);
    }
    hid_t data = H5Dcreate2(file, name, H5T_NATIVE_INT, space, H5P_DEFAULT, list, H5P_DEFAULT);
    H5Sclose(space);
    H5Pclose(list);
    need(data >= 0, "a data set cannot be made");
    return data;
}

static void fill(int value) {
    for (int index = 0; index < COUNT; index++)
        values[index] = value;
}

/* Each rank writes its part. */
static void write_part(hid_t data, int value) {
    hsize_t count = COUNT / (hsize_t)ranks, start = count * (hsize_t)rank;
    hid_t space = H5Dget_space(data), memory = H5Screate_simple(1, &count, NULL);
    H5Sselect_hyperslab(space, H5S_SELECT_SET, &start, NULL, &count, NULL);
    fill(value);
    need(H5Dwrite(data, H5T_NATIVE_INT, memory, space, together, values) >= 0, "H5Dwrite");
    H5Sclose(space);
    H5Sclose(memory);
}

static void write_all(hid_t data, int value) {
    fill(value);
    need(H5Dwrite(data, H5T_NATIVE_INT, H5S_ALL, H5S_ALL, H5P_DEFAULT, values) >= 0, "H5Dwrite of all");
}

static void tell(const char *what, int value) {
    int wrong = 0;
    for (int index = 0; index < COUNT; index++)
        wrong += values[index] != value;
    if (rank == 0)
        printf("%s: %d wrong\n", what, wrong);
}

static void read_all(hid_t data) {
    memset(values, 0xff, COUNT * sizeof *values);
    need(H5Dread(data, H5T_NATIVE_INT, H5S_ALL, H5S_ALL, H5P_DEFAULT, values) >= 0, "H5Dread");
}

/* What the file holds from byte `at` on, without HDF5. */
static void look(const char *what, haddr_t at, int value) {
    int file = open(path, O_RDONLY);
    memset(values, 0xff, COUNT * sizeof *values);
    need(pread(file, values, COUNT * sizeof *values, (off_t)at) > 0, "pread");
    close(file);
    tell(what, value);
}

static void flush_case(void) {
    hid_t file = open_file(NEW), data = make(file, "x", -1);
    write_part(data, 7);
    haddr_t at = H5Dget_offset(data);
    write_part(data, 8);
    need(H5Fflush(data, H5F_SCOPE_GLOBAL) >= 0, "H5Fflush");
    look("flushed by a data set", at, 8);
    MPI_Barrier(MPI_COMM_WORLD);
    H5Dclose(data);
    H5Fclose(file);
}

/* Makes a data set with a fill value where there was another one. */
static void make_next(hid_t file, haddr_t first) {
    hid_t data = make(file, "next", 3);
    haddr_t at = H5Dget_offset(data);
    H5Dclose(data);
    H5Fclose(file);
    if (rank == 0)
        printf("the place is %s\n", at == first ? "the same" : "another");
    look("fill value", at, 3);
}

static void unlinked_case(void) {
    hid_t file = open_file(NEW), gone = make(file, "a", -1);
    haddr_t first = H5Dget_offset(gone);
    H5Ldelete(file, "a", H5P_DEFAULT);
    write_part(gone, 5);
    H5Dclose(gone);
    make_next(file, first);
}

static void twice_case(void) {
    hid_t file = open_file(NEW), gone = make(file, "a", -1), more = -1;
    haddr_t first = H5Dget_offset(gone);
    if (rank == 1)
        write_all(gone, 5);
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0)
        more = H5Dopen2(file, "a", H5P_DEFAULT);
    H5Ldelete(file, "a", H5P_DEFAULT);
    write_part(gone, 6);
    H5Dclose(gone);
    if (more >= 0)
        H5Dclose(more);
    make_next(file, first);
}

static void group_case(void) {
    hid_t file = open_file(NEW), group = H5Gcreate2(file, "g", H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
    hid_t gone = make(group, "a", -1), more = rank == 0 ? H5Gopen2(file, "g", H5P_DEFAULT) : -1;
    haddr_t first = H5Dget_offset(gone);
    H5Ldelete(file, "g", H5P_DEFAULT);
    H5Gclose(group);
    write_part(gone, 6);
    if (more >= 0)
        H5Gclose(more);
    H5Dclose(gone);
    make_next(file, first);
}

static void anonymous_case(void) {
    hsize_t count = COUNT;
    hid_t file = open_file(NEW), space = H5Screate_simple(1, &count, NULL);
    hid_t data = H5Dcreate_anon(file, H5T_NATIVE_INT, space, H5P_DEFAULT, H5P_DEFAULT);
    H5Sclose(space);
    if (rank == 0)
        write_all(data, 5);
    MPI_Barrier(MPI_COMM_WORLD);
    need(H5Olink(data, file, "a", H5P_DEFAULT, H5P_DEFAULT) >= 0, "H5Olink");
    write_part(data, 6);
    MPI_Barrier(MPI_COMM_WORLD);
    read_all(data);
    tell("written by all", 6);
    MPI_Barrier(MPI_COMM_WORLD);
    H5Dclose(data);
    H5Fclose(file);
}

static void serial_case(void) {
    if (rank == 0) {
        hid_t file = H5Fcreate(path, H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT), data = make(file, "x", -1);
        write_all(data, 4);
        H5Dclose(data);
        H5Fclose(file);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    hid_t file = open_file(WRITE), data = H5Dopen2(file, "x", H5P_DEFAULT);
    need(data >= 0, "the data set of rank 0 is not there");
    read_all(data);
    tell("made by rank 0", 4);
    MPI_Barrier(MPI_COMM_WORLD);
    write_part(data, 6);
    H5Dclose(data);
    H5Fclose(file);
    file = open_file(READ);
    data = H5Dopen2(file, "x", H5P_DEFAULT);
    read_all(data);
    tell("written by all", 6);
    H5Dclose(data);
    H5Fclose(file);
}

/* A file whose data set has been read often enough to be cached, opened for writing. */
static hid_t cached_file(hid_t *data) {
    hid_t file = open_file(NEW), made = make(file, "x", -1);
    write_part(made, 7);
    H5Dclose(made);
    H5Fclose(file);
    usleep(300000);
    file = open_file(READ);
    *data = H5Dopen2(file, "x", H5P_DEFAULT);
    for (int times = 0; times < 3; times++)
        need(H5Dread(*data, H5T_NATIVE_INT, H5S_ALL, H5S_ALL, together, values) >= 0, "H5Dread together");
    H5Dclose(*data);
    H5Fclose(file);
    file = open_file(WRITE);
    *data = H5Dopen2(file, "x", H5P_DEFAULT);
    return file;
}

static void late_case(void) {
    hid_t data, file = cached_file(&data), space = H5Dget_space(data), memory = H5Dget_space(data);
    if (rank == 1) {
        usleep(500000);
        write_all(data, 77);
        H5Sselect_none(space);
        H5Sselect_none(memory);
    }
    need(H5Dread(data, H5T_NATIVE_INT, memory, space, together, values) >= 0, "H5Dread together");
    tell("read together after a write", 77);
    H5Sclose(space);
    H5Sclose(memory);
    H5Dclose(data);
    H5Fclose(file);
}

static void alone_case(void) {
    hid_t file = open_file(NEW), data = make(file, "x", -1);
    write_part(data, 7);
    if (rank == 0)
        H5E_BEGIN_TRY { H5Dflush(data); }
    H5E_END_TRY
    MPI_Barrier(MPI_COMM_WORLD);
    H5Dclose(data);
    H5Fclose(file);
    if (rank == 0)
        printf("flushed alone: 0 wrong\n");
}

static void weak_case(void) {
    is_weak = 1;
    hid_t data, file = cached_file(&data);
    read_all(data);
    H5Fclose(file);
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 1)
        write_all(data, 77);
    H5Fflush(data, H5F_SCOPE_GLOBAL);
    MPI_Barrier(MPI_COMM_WORLD);
    read_all(data);
    tell("read after the file's handle is gone", 77);
    MPI_Barrier(MPI_COMM_WORLD);
    H5Dclose(data);
}

static void async_case(void) {
    hid_t file = open_file(NEW), data = make(file, "x", -1);
    if (rank == 0)
        write_all(data, 1);
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 1) {
        hid_t events = H5EScreate();
        size_t running;
        hbool_t failed;
        fill(2);
        need(H5Dwrite_async(data, H5T_NATIVE_INT, H5S_ALL, H5S_ALL, H5P_DEFAULT, values, events) >= 0, "H5Dwrite_async");
        need(H5ESwait(events, UINT64_MAX, &running, &failed) >= 0 && !failed, "H5ESwait");
        H5ESclose(events);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    H5Dclose(data);
    H5Fclose(file);
    file = open_file(READ);
    data = H5Dopen2(file, "x", H5P_DEFAULT);
    read_all(data);
    tell("the later write", 2);
    H5Dclose(data);
    H5Fclose(file);
}

static void plain_case(void) {
    hid_t file = open_file(NEW), data = make(file, "x", -1);
    write_part(data, 9);
    H5Dclose(data);
    need(H5Fclose(file) >= 0, "H5Fclose");
    file = open_file(READ);
    data = H5Dopen2(file, "x", H5P_DEFAULT);
    read_all(data);
    tell("written", 9);
    H5Dclose(data);
    H5Fclose(file);
}

static void full_case(void) {
    hid_t file = open_file(NEW), good = make(file, "good", -1);
    hsize_t count = 16 * COUNT;
    hid_t space = H5Screate_simple(1, &count, NULL);
    hid_t large = H5Dcreate2(file, "large", H5T_NATIVE_INT, space, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
    int *many = calloc(count, sizeof *many);
    write_part(good, 3);
    H5Eset_auto2(H5E_DEFAULT, NULL, NULL);
    if (rank == 0)
        H5Dwrite(large, H5T_NATIVE_INT, H5S_ALL, H5S_ALL, H5P_DEFAULT, many);
    H5Dclose(good);
    H5Dclose(large);
    H5Sclose(space);
    herr_t closed = H5Fclose(file);
    if (rank == 0)
        printf("closed: %d\n", closed);
    free(many);
}

int main(int argc, char **argv) {
    static const struct {
        const char *name;
        void (*run)(void);
    } cases[] = {{"flush", flush_case}, {"unlinked", unlinked_case},   {"twice", twice_case}, {"group", group_case},
                 {"anonymous", anonymous_case}, {"serial", serial_case}, {"late", late_case},
                 {"alone", alone_case}, {"weak", weak_case},           {"async", async_case}, {"plain", plain_case},
                 {"full", full_case}};
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    need(argc == 3 && ranks > 1, "usage: mpiexec -n 2 parallel_order CASE FILE");
    path = argv[2];
    values = malloc(COUNT * sizeof *values);
    together = H5Pcreate(H5P_DATASET_XFER);
    H5Pset_dxpl_mpio(together, H5FD_MPIO_COLLECTIVE);
    for (size_t index = 0; index < sizeof cases / sizeof *cases; index++)
        if (strcmp(cases[index].name, argv[1]) == 0)
            cases[index].run();
    H5Pclose(together);
    free(values);
    MPI_Finalize();
    return 0;
}
