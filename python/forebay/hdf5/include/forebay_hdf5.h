/* Control of forebay's HDF5 VOL connector from C and C++.
 *
 * The connector is switched on by the environment and needs none of this. Every function goes through HDF5 itself
 * (H5VLfile_optional_op and the like), so a program links to nothing but its libhdf5, 1.14.0 or later; without the
 * connector they fail like any operation that a connector does not have.
 */
#ifndef FOREBAY_HDF5_H
#define FOREBAY_HDF5_H

#include <hdf5.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What the connector has done in this process, in bytes. */
typedef struct forebay_hdf5_stats_t {
    uint64_t hit;     /* read from the cache */
    uint64_t filled;  /* read from files to fill the cache */
    uint64_t passed;  /* read by HDF5 as without the connector */
    uint64_t kept;    /* put into the cache */
    uint64_t refused; /* not put there: no room, or the file had changed */
    uint64_t used;    /* what the cache holds */
    uint64_t quota;   /* the most that it may hold */
} forebay_hdf5_stats_t;

/* What the connector has done in this process for files that ranks have open together. */
typedef struct forebay_hdf5_parallel_stats_t {
    uint64_t staged_writes;      /* writes that were taken into the log of this rank */
    uint64_t staged_bytes;       /* their bytes */
    uint64_t passed_writes;      /* writes that HDF5 made */
    uint64_t served_collectives; /* collective reads that went by the caches of all ranks */
    uint64_t passed_collectives; /* collective reads that HDF5 made */
    uint64_t settled;            /* times at which all ranks brought their files up to date */
    uint64_t shared_bytes;       /* read from the file and placed where all ranks read it */
    uint64_t host_bytes;         /* read from what another rank of this host had placed */
    uint64_t remote_bytes;       /* read from ranks of other hosts */
    uint64_t remote_faults;      /* reads of other hosts that failed, and went to the file instead */
} forebay_hdf5_parallel_stats_t;

/* Arguments of the operation "forebay.prestage". */
typedef struct forebay_hdf5_prestage_t {
    hid_t file_space; /* what of the data set; H5S_ALL for all */
    int   blocking;   /* not 0: return when it is in the cache */
} forebay_hdf5_prestage_t;

/* Arguments of the operation "forebay.wait". */
typedef struct forebay_hdf5_wait_t {
    double seconds; /* how long at most */
    int    done;    /* not 0 once all is in the cache (out) */
} forebay_hdf5_wait_t;

/* Calls the operation NAME on a file or a data set. */
static inline herr_t forebay_hdf5_call(hid_t id, const char *name, void *arguments)
{
    H5VL_optional_args_t call;
    int                  number = -1;
    bool                 is_dataset = H5Iget_type(id) == H5I_DATASET;

    if (H5VLfind_opt_operation(is_dataset ? H5VL_SUBCLS_DATASET : H5VL_SUBCLS_FILE, name, &number) < 0)
        return -1;
    call.op_type = number;
    call.args    = arguments;
    return is_dataset ? H5VLdataset_optional_op(id, &call, H5P_DATASET_XFER_DEFAULT, H5ES_NONE)
                      : H5VLfile_optional_op(id, &call, H5P_DATASET_XFER_DEFAULT, H5ES_NONE);
}

/* Has reads of the process pass the cache, and puts nothing into it, until forebay_hdf5_start. ID: any file or data set. */
static inline herr_t forebay_hdf5_pause(hid_t id)
{
    return forebay_hdf5_call(id, "forebay.pause", NULL);
}

/* Ends a pause. */
static inline herr_t forebay_hdf5_start(hid_t id)
{
    return forebay_hdf5_call(id, "forebay.start", NULL);
}

/* Switches the cache for one open file. */
static inline herr_t forebay_hdf5_switch(hid_t file, int on)
{
    return forebay_hdf5_call(file, "forebay.switch", &on);
}

/* Brings what FILE_SPACE selects of a data set into the cache; in the background if BLOCKING is 0. */
static inline herr_t forebay_hdf5_prestage(hid_t dataset, hid_t file_space, int blocking)
{
    forebay_hdf5_prestage_t arguments;

    arguments.file_space = file_space;
    arguments.blocking   = blocking;
    return forebay_hdf5_call(dataset, "forebay.prestage", &arguments);
}

/* Waits at most SECONDS until what was read is in the cache: 1 then, 0 when that was not enough, negative on failure. */
static inline int forebay_hdf5_wait(hid_t id, double seconds)
{
    forebay_hdf5_wait_t arguments;

    arguments.seconds = seconds;
    arguments.done    = 0;
    return forebay_hdf5_call(id, "forebay.wait", &arguments) < 0 ? -1 : arguments.done;
}

/* What the connector has done in this process. */
static inline herr_t forebay_hdf5_stats(hid_t id, forebay_hdf5_stats_t *into)
{
    return forebay_hdf5_call(id, "forebay.stats", into);
}

/* The same for files that ranks have open together. */
static inline herr_t forebay_hdf5_parallel_stats(hid_t id, forebay_hdf5_parallel_stats_t *into)
{
    return forebay_hdf5_call(id, "forebay.parallel_stats", into);
}

/* ---- Calls of HDF5's Cache VOL; define FOREBAY_NO_CACHE_VOL_CALLS where its own header is included as well ---- */
#ifndef FOREBAY_NO_CACHE_VOL_CALLS

/* Brings a data set into the cache, and returns when it is there. */
static inline herr_t H5Dprefetch(hid_t dataset, hid_t file_space, hid_t transfer)
{
    (void)transfer;
    return forebay_hdf5_prestage(dataset, file_space, 1);
}

/* The same in the background, as far as HDF5 need not be called for it. */
static inline herr_t H5Dprefetch_async(hid_t dataset, hid_t file_space, hid_t transfer, hid_t events)
{
    (void)transfer;
    (void)events;
    return forebay_hdf5_prestage(dataset, file_space, 0);
}

/* Switches caching for files that are opened with the list: FLAG is "HDF5_CACHE_RD" or "HDF5_CACHE_WR", VALUE a bool. */
static inline herr_t H5Pset_fapl_cache(hid_t list, const char *flag, void *value)
{
    if (strcmp(flag, "HDF5_CACHE_RD") != 0 && strcmp(flag, "HDF5_CACHE_WR") != 0)
        return -1;
    if (H5Pexist(list, flag) > 0)
        return H5Pset(list, flag, value);
    return H5Pinsert2(list, flag, sizeof(bool), value, NULL, NULL, NULL, NULL, NULL, NULL);
}

/* What H5Pset_fapl_cache has set. */
static inline herr_t H5Pget_fapl_cache(hid_t list, const char *flag, void *value)
{
    if (H5Pexist(list, flag) <= 0)
        return -1;
    return H5Pget(list, flag, value);
}

/* Nothing is moved into the cache until H5Fcache_async_op_start. */
static inline herr_t H5Fcache_async_op_pause(hid_t file)
{
    return forebay_hdf5_pause(file);
}

/* Ends a pause. */
static inline herr_t H5Fcache_async_op_start(hid_t file)
{
    return forebay_hdf5_start(file);
}

/* The same, by a data set. */
static inline herr_t H5Dcache_async_op_pause(hid_t dataset)
{
    return forebay_hdf5_pause(dataset);
}

/* The same, by a data set. */
static inline herr_t H5Dcache_async_op_start(hid_t dataset)
{
    return forebay_hdf5_start(dataset);
}

#endif /* FOREBAY_NO_CACHE_VOL_CALLS */

#ifdef __cplusplus
}
#endif

#endif /* FOREBAY_HDF5_H */
