/* Writes one classic NetCDF file by PnetCDF: write_pnetcdf FILE 1|2|5 RECORD_COUNT.
 *
 * Element i of each variable is i + 1, record variables counted over all records. The variable "unwritten" is defined
 * last and never written. */
#include <pnetcdf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHECK(call)                                                                  \
    do {                                                                             \
        int status = (call);                                                         \
        if (status != NC_NOERR) {                                                    \
            fprintf(stderr, "%s: %s\n", #call, ncmpi_strerror(status));              \
            exit(1);                                                                 \
        }                                                                            \
    } while (0)

enum { MOST = 8, INNER = 3 };

static const struct { const char *name; nc_type type; int is_new; } TYPES[] = {
    {"byte", NC_BYTE, 0},     {"short", NC_SHORT, 0},   {"int", NC_INT, 0},     {"float", NC_FLOAT, 0},
    {"double", NC_DOUBLE, 0}, {"ubyte", NC_UBYTE, 1},   {"ushort", NC_USHORT, 1}, {"uint", NC_UINT, 1},
    {"int64", NC_INT64, 1},   {"uint64", NC_UINT64, 1},
};
enum { TYPE_COUNT = sizeof TYPES / sizeof TYPES[0] };

int main(int argc, char **argv) {
    if (argc != 4) return 2;
    int flavour = atoi(argv[2]), record_count = atoi(argv[3]);
    if (record_count < 0 || record_count > MOST) return 2;
    int mode = NC_CLOBBER | (flavour == 5 ? NC_64BIT_DATA : flavour == 2 ? NC_64BIT_OFFSET : 0);
    int file, time, inner, fixed[TYPE_COUNT], records[TYPE_COUNT], unwritten;
    MPI_Init(&argc, &argv);
    CHECK(ncmpi_create(MPI_COMM_WORLD, argv[1], mode, MPI_INFO_NULL, &file));
    CHECK(ncmpi_def_dim(file, "time", NC_UNLIMITED, &time));
    CHECK(ncmpi_def_dim(file, "inner", INNER, &inner));
    CHECK(ncmpi_put_att_text(file, NC_GLOBAL, "title", 7, "pnetcdf"));
    int both[] = {time, inner};
    for (int i = 0; i < TYPE_COUNT; i++) {
        if (TYPES[i].is_new && flavour != 5) continue;
        char name[32];
        snprintf(name, sizeof name, "fixed_%s", TYPES[i].name);
        CHECK(ncmpi_def_var(file, name, TYPES[i].type, 1, &inner, &fixed[i]));
        snprintf(name, sizeof name, "record_%s", TYPES[i].name);
        CHECK(ncmpi_def_var(file, name, TYPES[i].type, 2, both, &records[i]));
    }
    CHECK(ncmpi_def_var(file, "unwritten", NC_DOUBLE, 1, &inner, &unwritten));
    CHECK(ncmpi_enddef(file));
    int values[MOST * INNER];
    for (int i = 0; i < MOST * INNER; i++) values[i] = i + 1;
    MPI_Offset start[] = {0, 0}, count[] = {record_count, INNER};
    for (int i = 0; i < TYPE_COUNT; i++) {
        if (TYPES[i].is_new && flavour != 5) continue;
        CHECK(ncmpi_put_vara_int_all(file, fixed[i], &start[1], &count[1], values));
        CHECK(ncmpi_put_vara_int_all(file, records[i], start, count, values));
    }
    CHECK(ncmpi_close(file));
    MPI_Finalize();
    return 0;
}
