/* Writes Silo files of many kinds, and beside them what every array must read as.
 *
 * Usage: silo_writer DRIVER FOLDER, where DRIVER is pdb, sun, cray, hdf5, gzip or checksum.
 * FOLDER/expected.tsv has a line per array: file, variable, NumPy type, shape (C order), file of its raw bytes. */

#include <silo.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct {
    int code;
    const char *name, *numpy;
    size_t len;
} TYPES[] = {
    {DB_CHAR, "char", "u1", 1},      {DB_SHORT, "short", "i2", 2}, {DB_INT, "int", "i4", 4},
    {DB_LONG, "long", "i8", 8},      {DB_LONG_LONG, "longlong", "i8", 8},
    {DB_FLOAT, "float", "f4", 4},    {DB_DOUBLE, "double", "f8", 8},
};
enum { TYPE_COUNT = sizeof TYPES / sizeof *TYPES, INT = 2, FLOAT = 5, DOUBLE = 6 };

static const char *folder;
static int driver, target = DB_LOCAL;
static FILE *expected;
static int raw_count;
static uint64_t state = 88172645463325252u;

static void need(int is_good, const char *what) {
    if (is_good) return;
    fprintf(stderr, "%s: %s\n", what, DBErrString());
    exit(1);
}

static char *print(const char *format, ...) {
    char *text = malloc(256);
    va_list list;
    va_start(list, format);
    vsnprintf(text, 256, format, list);
    va_end(list);
    return text;
}

/* Values that differ everywhere, are the same in every run, and are no not-a-numbers. */
static void *values(int type, int count) {
    unsigned char *bytes = malloc(TYPES[type].len * count + 1);
    for (int i = 0; i < count; i++) {
        state ^= state << 13, state ^= state >> 7, state ^= state << 17;
        void *at = bytes + i * TYPES[type].len;
        if (type == FLOAT) *(float *)at = (float)(int32_t)state / 1024;
        else if (type == DOUBLE) *(double *)at = (double)(int64_t)state / 4096;
        else memcpy(at, &state, TYPES[type].len);
    }
    return bytes;
}

/* Notes that `variable` of `file` must read as `count` values at `at`, of `shape` in C order. */
static void expect(const char *file, const char *variable, int type, const char *shape, const void *at, int count) {
    char *path = print("%s/raw%d", folder, raw_count);
    FILE *raw = fopen(path, "wb");
    need(raw && fwrite(at, TYPES[type].len, count, raw) == (size_t)count && !fclose(raw), path);
    fprintf(expected, "%s\t%s\t%s\t%s\traw%d\n", file, variable, TYPES[type].numpy, shape, raw_count++);
}

static DBfile *create(const char *name) {
    DBfile *file = DBCreate(print("%s/%s", folder, name), DB_CLOBBER, target, "a test", driver);
    need(file != NULL, name);
    return file;
}

/* Silo's order of dims as a C-order shape: the other way round where the first index is the fastest. */
static char *shape_of(const int *dims, int ndims, int major) {
    char *text = print("");
    for (int i = 0; i < ndims; i++)
        text = print("%s%s%d", text, i ? "," : "", dims[major == DB_ROWMAJOR ? ndims - 1 - i : i]);
    return text;
}

static int product(const int *dims, int ndims) {
    int count = 1;
    for (int i = 0; i < ndims; i++) count *= dims[i];
    return count;
}

static DBoptlist *options(int major) {
    static int cycle, order;
    static float time = 0.25f;
    static double dtime = 0.5;
    DBoptlist *list = DBMakeOptlist(8);
    cycle = 42, order = major;
    DBAddOption(list, DBOPT_CYCLE, &cycle);
    DBAddOption(list, DBOPT_TIME, &time);
    DBAddOption(list, DBOPT_DTIME, &dtime);
    DBAddOption(list, DBOPT_MAJORORDER, &order);
    DBAddOption(list, DBOPT_UNITS, "kg/m^3");
    DBAddOption(list, DBOPT_LABEL, "Density");
    return list;
}

static void quads(void) {
    const char *name = "quads.silo";
    DBfile *file = create(name);
    int dims[] = {7, 5, 3};
    for (int type = 0; type < TYPE_COUNT; type++)
        for (int ndims = 1; ndims <= 3; ndims++)
            for (int major = 0; major <= 1; major++) {
                int count = product(dims, ndims);
                char *variable = print("q_%s_%d_%d", TYPES[type].name, ndims, major);
                void *one = values(type, count);
                need(!DBPutQuadvar1(file, variable, "mesh", one, dims, ndims, NULL, 0, TYPES[type].code, DB_NODECENT,
                                    options(major)), variable);
                expect(name, variable, type, shape_of(dims, ndims, major), one, count);
            }
    for (int parts = 2; parts <= 3; parts++) {
        char *variable = print("vector%d", parts);
        const char *names[] = {"vx", "vy", "vz"};
        void *all[3];
        const char *renamed[3];
        for (int i = 0; i < parts; i++) {
            all[i] = values(DOUBLE, 105);
            renamed[i] = print("%s_%s", variable, names[i]);
            expect(name, print("%s/%d", variable, i), DOUBLE, "3,5,7", all[i], 105);
        }
        need(!DBPutQuadvar(file, variable, "mesh", parts, renamed, (DBVCP2_t)all, dims, 3, NULL, 0, DB_DOUBLE,
                           DB_ZONECENT, options(0)), variable);
    }
    void *mixed = values(FLOAT, 4), *plain = values(FLOAT, 105);
    need(!DBPutQuadvar1(file, "mixed", "mesh", plain, dims, 3, mixed, 4, DB_FLOAT, DB_ZONECENT, options(0)), "mixed");
    expect(name, "mixed", FLOAT, "3,5,7", plain, 105);
    expect(name, "mixed/mixed", FLOAT, "4", mixed, 4);
    void *axes[] = {values(FLOAT, 7), values(FLOAT, 5), values(FLOAT, 3)};
    const char *letters[] = {"x", "y", "z"};
    DBoptlist *list = options(0);
    DBAddOption(list, DBOPT_XLABEL, "Width");
    DBAddOption(list, DBOPT_XUNITS, "cm");
    need(!DBPutQuadmesh(file, "mesh", letters, (DBVCP2_t)axes, dims, 3, DB_FLOAT, DB_COLLINEAR, list), "mesh");
    for (int i = 0; i < 3; i++) expect(name, print("mesh/coord%d", i), FLOAT, print("%d", dims[i]), axes[i], dims[i]);
    for (int major = 0; major <= 1; major++) {
        void *nodes[] = {values(DOUBLE, 35), values(DOUBLE, 35)};
        char *mesh = print("curved%d", major);
        need(!DBPutQuadmesh(file, mesh, letters, (DBVCP2_t)nodes, dims, 2, DB_DOUBLE, DB_NONCOLLINEAR, options(major)),
             mesh);
        for (int i = 0; i < 2; i++)
            expect(name, print("%s/coord%d", mesh, i), DOUBLE, shape_of(dims, 2, major), nodes[i], 35);
    }
    need(!DBClose(file), name);
}

static void cells(void) {
    const char *name = "cells.silo";
    DBfile *file = create(name);
    need(!DBMkDir(file, "deep") && !DBSetDir(file, "deep") && !DBMkDir(file, "down") && !DBSetDir(file, "down"), "dir");
    int nodes[] = {0, 1, 4, 3, 1, 2, 5, 4}, sizes[] = {4}, counts[] = {2}, kinds[] = {DB_ZONETYPE_QUAD};
    need(!DBPutZonelist2(file, "zl", 2, 2, nodes, 8, 0, 0, 0, kinds, sizes, counts, 1, NULL), "zl");
    expect(name, "deep/down/zl/nodelist", INT, "8", nodes, 8);
    expect(name, "deep/down/zl/shapesize", INT, "1", sizes, 1);
    expect(name, "deep/down/zl/shapecnt", INT, "1", counts, 1);
    expect(name, "deep/down/zl/shapetype", INT, "1", kinds, 1);
    void *axes[] = {values(DOUBLE, 6), values(DOUBLE, 6)};
    need(!DBPutUcdmesh(file, "umesh", 2, NULL, (DBVCP2_t)axes, 6, 2, "zl", NULL, DB_DOUBLE, options(0)), "umesh");
    expect(name, "deep/down/umesh/coord0", DOUBLE, "6", axes[0], 6);
    expect(name, "deep/down/umesh/coord1", DOUBLE, "6", axes[1], 6);
    expect(name, "deep/down/umesh/zonelist/nodelist", INT, "8", nodes, 8);
    for (int type = 0; type < TYPE_COUNT; type++) {
        char *variable = print("u_%s", TYPES[type].name);
        void *one = values(type, 6);
        need(!DBPutUcdvar1(file, variable, "umesh", one, 6, NULL, 0, TYPES[type].code, DB_NODECENT, options(0)),
             variable);
        expect(name, print("deep/down/%s", variable), type, "6", one, 6);
    }
    void *pair[] = {values(FLOAT, 2), values(FLOAT, 2)}, *mixed[] = {values(FLOAT, 3), values(FLOAT, 3)};
    const char *names[] = {"ux", "uy"};
    need(!DBPutUcdvar(file, "uvec", "umesh", 2, names, (DBVCP2_t)pair, 2, (DBVCP2_t)mixed, 3, DB_FLOAT, DB_ZONECENT,
                      options(0)), "uvec");
    for (int i = 0; i < 2; i++) {
        expect(name, print("deep/down/uvec/%d", i), FLOAT, "2", pair[i], 2);
        expect(name, print("deep/down/uvec/mixed%d", i), FLOAT, "3", mixed[i], 3);
    }
    need(!DBSetDir(file, "/"), "root");
    void *points[] = {values(FLOAT, 20), values(FLOAT, 20), values(FLOAT, 20)};
    need(!DBPutPointmesh(file, "pmesh", 3, (DBVCP2_t)points, 20, DB_FLOAT, options(0)), "pmesh");
    for (int i = 0; i < 3; i++) expect(name, print("pmesh/coord%d", i), FLOAT, "20", points[i], 20);
    for (int type = 0; type < TYPE_COUNT; type++) {
        char *variable = print("p_%s", TYPES[type].name);
        void *one = values(type, 20);
        need(!DBPutPointvar1(file, variable, "pmesh", one, 20, TYPES[type].code, options(0)), variable);
        expect(name, variable, type, "20", one, 20);
    }
    need(!DBPutPointvar(file, "pvec", "pmesh", 3, (DBVCP2_t)points, 20, DB_FLOAT, options(0)), "pvec");
    for (int i = 0; i < 3; i++) expect(name, print("pvec/%d", i), FLOAT, "20", points[i], 20);
    void *x = values(DOUBLE, 11), *y = values(DOUBLE, 11);
    need(!DBPutCurve(file, "curve", x, y, DB_DOUBLE, 11, NULL), "curve");
    expect(name, "curve/x", DOUBLE, "11", x, 11);
    expect(name, "curve/y", DOUBLE, "11", y, 11);
    need(!DBClose(file), name);
}

static void materials(void) {
    const char *name = "materials.silo";
    DBfile *file = create(name);
    int dims[] = {4, 3}, numbers[] = {1, 2, 5};
    for (int major = 0; major <= 1; major++) {
        int list[] = {1, 1, 2, 2, -1, 5, 5, 1, -3, 2, 2, 1};
        int next[] = {2, 0, 4, 0}, mat[] = {1, 2, 2, 5}, zone[] = {5, 5, 9, 9};
        double parts[] = {0.25, 0.75, 0.5, 0.5};
        char *material = print("mat%d", major);
        need(!DBPutMaterial(file, material, "mesh", 3, numbers, list, dims, 2, next, mat, zone, parts, 4, DB_DOUBLE,
                            options(major)), material);
        expect(name, print("%s/matlist", material), INT, shape_of(dims, 2, major), list, 12);
        expect(name, print("%s/mix_vf", material), DOUBLE, "4", parts, 4);
        expect(name, print("%s/mix_next", material), INT, "4", next, 4);
        expect(name, print("%s/mix_mat", material), INT, "4", mat, 4);
        expect(name, print("%s/mix_zone", material), INT, "4", zone, 4);
        expect(name, print("%s/matnos", material), INT, "3", numbers, 3);
    }
    int per_material[] = {1, 2, 1}, species[] = {1, 1, 1, 2, 3, 4, 4, 1, 2, 3, 1, 1};
    float fractions[] = {1, 0.25f, 0.75f, 1};
    need(!DBPutMatspecies(file, "species", "mat0", 3, per_material, species, dims, 2, 4, fractions, NULL, 0, DB_FLOAT,
                          NULL), "species");
    expect(name, "species/speclist", INT, "3,4", species, 12);
    expect(name, "species/species_mf", FLOAT, "4", fractions, 4);
    for (int type = 0; type < TYPE_COUNT; type++)
        for (int ndims = 1; ndims <= 3; ndims++) {
            int shape[] = {3, 4, 2};
            int count = product(shape, ndims);
            char *variable = print("plain_%s_%d", TYPES[type].name, ndims);
            void *one = values(type, count);
            need(!DBWrite(file, variable, one, shape, ndims, TYPES[type].code), variable);
            expect(name, variable, type, shape_of(shape, ndims, DB_COLMAJOR), one, count);
        }
    /* A disc within a box: a mesh of constructive solids has no arrays of values. */
    int kinds[] = {DBCSG_CIRCLE_PR, DBCSG_LINE_X};
    float numbers_of[] = {5, 5, 5, 2};
    double extents[] = {0, 0, 0, 10, 10, 10};
    need(!DBPutCsgmesh(file, "solids", 2, 2, kinds, NULL, numbers_of, 4, DB_FLOAT, extents, "solid_zones", NULL),
         "solids");
    DBobject *object = DBMakeObject("mine", DB_USERDEF, 4);
    DBAddIntComponent(object, "count", 3);
    DBAddStrComponent(object, "colour", "red");
    void *own = values(DOUBLE, 3);
    need(!DBWriteComponent(file, object, "list", "mine", "double", own, 1, (long[]){3}), "list");
    need(!DBWriteObject(file, object, 1), "mine");
    expect(name, "mine/list", DOUBLE, "3", own, 3);
    need(!DBClose(file), name);
}

static void *block(DBfile *file, const char *variable, const int *dims, int ndims) {
    void *one = values(FLOAT, product(dims, ndims));
    need(!DBPutQuadvar1(file, variable, "mesh", one, dims, ndims, NULL, 0, DB_FLOAT, DB_ZONECENT, options(0)), variable);
    return one;
}

static void multi(const char *name) {
    enum { BLOCKS = 4 };
    DBfile *file = create(name);
    int dims[] = {4, 3, 2}, kinds[BLOCKS + 1];
    char *even[BLOCKS + 1], *uneven[BLOCKS + 1], *elsewhere[BLOCKS], *meshes[BLOCKS], *mats[BLOCKS], *vectors[BLOCKS];
    char *odd[2] = {"block0/rho", "block0/heavy"};
    char *lost[2] = {"block0/rho", "nowhere.silo:/rho"}, *outside[2] = {"block0/rho", "/../../../etc/passwd:/rho"};
    char *absent[2] = {"block0/rho", "block0/none"};
    float joined[BLOCKS * 24], ragged[BLOCKS * 24], outer[BLOCKS * 24], across[BLOCKS * 4], second[BLOCKS * 24];
    int lists[BLOCKS * 24], at = 0, offsets[BLOCKS + 2] = {0};
    for (int i = 0; i < BLOCKS; i++) {
        char *where = print("block%d", i);
        need(!DBMkDir(file, where) && !DBSetDir(file, where), where);
        memcpy(joined + 24 * i, block(file, "rho", dims, 3), 96);
        int own[] = {4, i + 1};
        memcpy(ragged + at, block(file, "loose", own, 2), 16 * (i + 1));
        at += 4 * (i + 1);
        offsets[i + 1] = at;
        void *axes[] = {values(FLOAT, 4), values(FLOAT, 3), values(FLOAT, 2)};
        need(!DBPutQuadmesh(file, "mesh", NULL, (DBVCP2_t)axes, dims, 3, DB_FLOAT, DB_COLLINEAR, options(0)), "mesh");
        memcpy(across + 4 * i, axes[0], 16);
        int numbers[] = {1, 2}, list[24];
        for (int j = 0; j < 24; j++) list[j] = lists[24 * i + j] = 1 + (i + j) % 2;
        need(!DBPutMaterial(file, "mat", "mesh", 2, numbers, list, dims, 3, NULL, NULL, NULL, NULL, 0, DB_FLOAT,
                            options(0)), "mat");
        void *pair[] = {values(FLOAT, 24), values(FLOAT, 24)};
        const char *names[] = {"vx", "vy"};
        need(!DBPutQuadvar(file, "vec", "mesh", 2, names, (DBVCP2_t)pair, dims, 3, NULL, 0, DB_FLOAT, DB_ZONECENT,
                           options(0)), "vec");
        memcpy(second + 24 * i, pair[1], 96);
        if (i == 0) {
            double *heavy = values(DOUBLE, 24);
            need(!DBPutQuadvar1(file, "heavy", "mesh", heavy, dims, 3, NULL, 0, DB_DOUBLE, DB_ZONECENT, NULL), "heavy");
        }
        need(!DBSetDir(file, "/"), "root");
        even[i] = print(i % 2 ? "/block%d/rho" : "block%d/rho", i);
        uneven[i] = print("/block%d/loose", i);
        meshes[i] = print("/block%d/mesh", i);
        mats[i] = print("/block%d/mat", i);
        vectors[i] = print("/block%d/vec", i);
        kinds[i] = DB_QUADVAR;
        char *other = print("%s_part%d.silo", driver == DB_PDB ? "pdb" : "hdf5", i);
        DBfile *part = create(other);
        need(!DBMkDir(part, "inside") && !DBSetDir(part, "inside"), other);
        memcpy(outer + 24 * i, block(part, "rho", dims, 3), 96);
        need(!DBClose(part), other);
        elsewhere[i] = print("%s:/inside/rho", other);
    }
    even[BLOCKS] = uneven[BLOCKS] = "EMPTY";
    kinds[BLOCKS] = DB_QUADVAR;
    offsets[BLOCKS + 1] = at;
    typedef const char *const *Names;
    need(!DBPutMultivar(file, "rho", BLOCKS, (Names)even, kinds, options(0)), "rho");
    expect(name, "rho", FLOAT, "4,2,3,4", joined, BLOCKS * 24);
    need(!DBPutMultivar(file, "gaps", BLOCKS + 1, (Names)even, kinds, NULL), "gaps");
    expect(name, "gaps", FLOAT, "96", joined, BLOCKS * 24);
    need(!DBPutMultivar(file, "loose", BLOCKS + 1, (Names)uneven, kinds, NULL), "loose");
    expect(name, "loose", FLOAT, print("%d", at), ragged, at);
    int64_t wide[BLOCKS + 2];
    for (int i = 0; i < BLOCKS + 2; i++) wide[i] = offsets[i];
    expect(name, "loose@offsets", 3, "6", wide, BLOCKS + 2);
    need(!DBPutMultivar(file, "outer", BLOCKS, (Names)elsewhere, kinds, NULL), "outer");
    expect(name, "outer", FLOAT, "4,2,3,4", outer, BLOCKS * 24);
    need(!DBPutMultivar(file, "vec", BLOCKS, (Names)vectors, kinds, NULL), "vec");
    expect(name, "vec/1", FLOAT, "4,2,3,4", second, BLOCKS * 24);
    need(!DBPutMultivar(file, "odd", 2, (Names)odd, kinds, NULL), "odd");
    need(!DBPutMultivar(file, "lost", 2, (Names)lost, kinds, NULL), "lost");
    need(!DBPutMultivar(file, "absent", 2, (Names)absent, kinds, NULL), "absent");
    need(!DBPutMultivar(file, "outside", 2, (Names)outside, kinds, NULL), "outside");
    int mesh_kinds[] = {DB_QUAD_RECT, DB_QUAD_RECT, DB_QUAD_RECT, DB_QUAD_RECT};
    need(!DBPutMultimesh(file, "mesh", BLOCKS, (Names)meshes, mesh_kinds, NULL), "mesh");
    expect(name, "mesh/coord0", FLOAT, "4,4", across, BLOCKS * 4);
    need(!DBPutMultimat(file, "mat", BLOCKS, (Names)mats, NULL), "mat");
    expect(name, "mat/matlist", INT, "4,2,3,4", lists, BLOCKS * 24);
    DBoptlist *list = DBMakeOptlist(4);
    int kind = DB_QUADVAR;
    DBAddOption(list, DBOPT_MB_BLOCK_NS, "@block%d/rho@n");
    DBAddOption(list, DBOPT_MB_BLOCK_TYPE, &kind);
    need(!DBPutMultivar(file, "scheme", BLOCKS, NULL, NULL, list), "scheme");
    expect(name, "scheme", FLOAT, "4,2,3,4", joined, BLOCKS * 24);
    need(!DBClose(file), name);
}

int main(int count, char **words) {
    need(count == 3, "usage: silo_writer DRIVER FOLDER");
    folder = words[2];
    if (!strcmp(words[1], "sun")) target = DB_SUN4;
    if (!strcmp(words[1], "cray")) target = DB_CRAY;
    driver = target != DB_LOCAL || !strcmp(words[1], "pdb") ? DB_PDB : DB_HDF5;
    if (!strcmp(words[1], "gzip")) DBSetCompression("METHOD=GZIP LEVEL=6");
    if (!strcmp(words[1], "checksum")) DBSetEnableChecksums(1);
    DBShowErrors(DB_NONE, NULL);
    expected = fopen(print("%s/expected.tsv", folder), "w");
    need(expected != NULL, folder);
    quads(), cells(), materials(), multi("multi.silo");
    return fclose(expected) != 0;
}
