/* A table of rows as one quadvar: silo_rows RAW OUT COUNT ROW. */
#include <silo.h>
#include <stdio.h>
#include <stdlib.h>

int main(int count, char **words) {
    if (count != 5) return 2;
    int rows = atoi(words[3]), row = atoi(words[4]);
    size_t len = (size_t)rows * row;
    float *values = malloc(len * sizeof *values), *across = calloc(row, sizeof *across), *down = calloc(rows, sizeof *down);
    FILE *raw = fopen(words[1], "rb");
    if (!values || !across || !down || !raw || fread(values, sizeof *values, len, raw) != len) return 1;
    DBfile *file = DBCreate(words[2], DB_CLOBBER, DB_LOCAL, "rows", DB_HDF5);
    for (int at = 0; at < rows; at++) down[at] = at;
    /* Silo's first index is the fastest. */
    int dims[2] = {row, rows};
    float *coordinates[2] = {across, down};
    const char *names[2] = {"feature", "sample"};
    if (!file || DBPutQuadmesh(file, "mesh", names, coordinates, dims, 2, DB_FLOAT, DB_COLLINEAR, NULL)) return 1;
    if (DBPutQuadvar1(file, "x", "mesh", values, dims, 2, NULL, 0, DB_FLOAT, DB_NODECENT, NULL)) return 1;
    return DBClose(file);
}
