/*
 * forebay in C: samples of scientific data (HDF5, NetCDF, Zarr, ...) as batches, each field a DLPack tensor without a copy.
 *
 *   forebay_dataset_open -> forebay_loader_new -> forebay_loader_next -> forebay_batch_tensor -> any framework
 *
 * Functions that can fail return a code: FOREBAY_OK, an outcome above 0 (FOREBAY_END, FOREBAY_TIMEOUT), or an error below 0,
 * of which forebay_last_error() has the text. All functions may be called from many threads at once, on one handle too; a
 * handle is freed once, when no call uses it. Texts are UTF-8 that ends with a NUL; paths may be any bytes. What is given to
 * a function is copied, or used only until it returns.
 *
 * The names are C11 and C++17 alike. Programs that include <dlpack/dlpack.h> do so before this file, or define
 * FOREBAY_NO_DLPACK: then this file declares DLManagedTensorVersioned and leaves its parts to dlpack.h.
 */
#ifndef FOREBAY_H
#define FOREBAY_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* What this header was written for; forebay_abi_version() tells what the library has. Another number is another library, and
 * another name of it (libforebay.so.1). Functions and options are added without a new number. */
#define FOREBAY_ABI_VERSION 1

#ifdef __cplusplus
extern "C" {
#endif

/* ---- DLPack 1.0, as far as it is used here ---------------------------------------------------------------------------- */

#if !defined(DLPACK_DLPACK_H_) && !defined(FOREBAY_NO_DLPACK)

typedef struct DLPackVersion {
    uint32_t major;
    uint32_t minor;
} DLPackVersion;

typedef struct DLDevice {
    int32_t device_type; /* 1: memory of the host */
    int32_t device_id;
} DLDevice;

typedef struct DLDataType {
    uint8_t code; /* 0 signed, 1 unsigned integer, 2 float, 4 bfloat16, 5 complex, 6 bool */
    uint8_t bits;
    uint16_t lanes; /* always 1 here */
} DLDataType;

typedef struct DLTensor {
    void *data; /* the first element, 64-byte aligned */
    DLDevice device;
    int32_t ndim;
    DLDataType dtype;
    int64_t *shape;
    int64_t *strides; /* in elements; always C order here */
    uint64_t byte_offset; /* always 0 here */
} DLTensor;

typedef struct DLManagedTensorVersioned {
    DLPackVersion version;
    void *manager_ctx;
    void (*deleter)(struct DLManagedTensorVersioned *self); /* called once, on any thread, when the tensor is not needed */
    uint64_t flags;
    DLTensor dl_tensor;
} DLManagedTensorVersioned;

#elif defined(FOREBAY_NO_DLPACK)
struct DLManagedTensorVersioned;
#endif

/* ---- codes and errors ------------------------------------------------------------------------------------------------- */

#define FOREBAY_OK 0
#define FOREBAY_END 1 /* there are no more batches */
#define FOREBAY_TIMEOUT 2 /* it takes longer than the caller would wait: ask again */

#define FOREBAY_NOT_FOUND (-1) /* nothing is there */
#define FOREBAY_INVALID (-2) /* the request makes no sense */
#define FOREBAY_CORRUPT (-3) /* the bytes break their own format */
#define FOREBAY_UNSUPPORTED (-4) /* a valid request that this build cannot serve */
#define FOREBAY_UNAVAILABLE (-5) /* it may work if tried again later */
#define FOREBAY_FULL (-6) /* no room is left */
#define FOREBAY_DENIED (-7) /* the system does not let this user do it */
#define FOREBAY_SYSTEM (-8) /* the system refused */
#define FOREBAY_BUG (-9) /* a promise inside forebay was broken */

/* The version of the ABI of the library: FOREBAY_ABI_VERSION of its own header. */
uint32_t forebay_abi_version(void);
/* The version of forebay, such as "0.1.0". */
const char *forebay_version(void);
/* The last error of this thread: text ("" before the first), code and the system's errno (0 where it was none). The text stays
 * until the next error of the thread. */
const char *forebay_last_error(void);
int32_t forebay_last_code(void);
int32_t forebay_last_errno(void);
/* The word for a code, such as "not_found". */
const char *forebay_code_name(int32_t code);
/* What was left out or done otherwise than one may think, since this was last asked: JSON, [{"kind", "subject", "text"}]. */
int32_t forebay_warnings(char **json);
/* Frees a text that a function gave (describe, stats, save). NULL is left alone. */
void forebay_free_string(char *text);

/* ---- sets of samples -------------------------------------------------------------------------------------------------- */

typedef struct forebay_dataset forebay_dataset;
typedef struct forebay_batch forebay_batch;

typedef struct forebay_dataset_options {
    size_t size; /* sizeof(forebay_dataset_options); set by forebay_dataset_options_defaults() */
    const char *const *files; /* paths, URLs, folders, or patterns such as "train-*.h5" */
    size_t file_count;
    const char *const *fields; /* "image", "x=group/image", or "x:float32" to cast */
    size_t field_count;
    const char *label; /* one more field; with ragged samples it has one row of each. NULL: none */
    const char *samples; /* "fixed:4", "along:time", "windows:time=4,lat=16", "ragged:ptr", "lengths:n", "groups:mol_*", "whole".
                            NULL: one row of axis 0 */
    const char *spec; /* all of the above as JSON, as Python's Dataset.spec has it; NULL: as above */
    const char *config; /* a forebay.toml, or "none"; NULL: as the environment says */
    const char *const *tiers; /* "memory:4GiB", "disk:/nvme/$USER:100GiB"; or the one word "none". No tiers: as configured */
    size_t tier_count;
    uint64_t memory; /* bytes for samples that are asked for by number; 0: by default */
} forebay_dataset_options;

static inline forebay_dataset_options forebay_dataset_options_defaults(void)
{
    forebay_dataset_options options;
    memset(&options, 0, sizeof options);
    options.size = sizeof options;
    return options;
}

/* Opens a set. Descriptions and offsets of its files are read, and no values. */
int32_t forebay_dataset_open(const forebay_dataset_options *options, forebay_dataset **dataset);
/* What it is, as JSON: samples, bytes, fingerprint, fields[name, dtype, kind, sample_shape, categories], files, format, tiers. */
int32_t forebay_dataset_describe(const forebay_dataset *dataset, char **json);
/* How many samples it has. */
int32_t forebay_dataset_length(const forebay_dataset *dataset, uint64_t *length);
/* The samples of these numbers, side by side, in that order; read on the calling thread. */
int32_t forebay_dataset_get(const forebay_dataset *dataset, const uint64_t *numbers, size_t count, forebay_batch **batch);
/* Frees it; loaders of it go on. NULL is left alone. */
void forebay_dataset_free(forebay_dataset *dataset);

/* ---- loaders ---------------------------------------------------------------------------------------------------------- */

typedef struct forebay_loader forebay_loader;

#define FOREBAY_SHUFFLE_NONE 0
#define FOREBAY_SHUFFLE_FULL 1 /* every sample may be anywhere */
#define FOREBAY_SHUFFLE_BLOCK 2 /* each chunk is decoded once */

#define FOREBAY_TAIL_DEFAULT 0
#define FOREBAY_TAIL_SHORT 1 /* the last batch is shorter; for one rank only */
#define FOREBAY_TAIL_DROP 2
#define FOREBAY_TAIL_PAD 3
#define FOREBAY_TAIL_WRAP 4

#define FOREBAY_ON_ERROR_RAISE 0
#define FOREBAY_ON_ERROR_SKIP 1
#define FOREBAY_ON_ERROR_SUBSTITUTE 2

#define FOREBAY_NO_PREFETCH UINT32_MAX /* each batch is made when it is asked for */
#define FOREBAY_ENDLESS UINT64_MAX /* epochs without end */

/* 0 stands for what holds when nothing is said. */
typedef struct forebay_loader_options {
    size_t size; /* sizeof(forebay_loader_options); set by forebay_loader_options_defaults() */
    uint64_t batch_size; /* 0: 1 */
    uint64_t seed;
    uint64_t epochs; /* epochs that follow each other without a pause, up to FOREBAY_END; 0: 1 */
    uint64_t memory; /* bytes; 0: a part of what the process may take */
    uint32_t shuffle; /* FOREBAY_SHUFFLE_... */
    uint32_t tail; /* FOREBAY_TAIL_...: the last samples, where they fill no batch */
    uint32_t rank;
    uint32_t world; /* ranks that share the samples; 0: 1 */
    uint32_t threads; /* that read and decode; 0: as many as the process may use */
    uint32_t prefetch; /* batches made ahead; 0: 4 */
    uint32_t held; /* batches that the program holds at a time; 0: 2 */
    uint32_t on_error; /* FOREBAY_ON_ERROR_...: a sample that cannot be read */
    uint32_t manual_commit; /* not 0: batches count in the state once forebay_loader_commit is called */
    uint32_t reserved; /* 0 */
} forebay_loader_options;

static inline forebay_loader_options forebay_loader_options_defaults(void)
{
    forebay_loader_options options;
    memset(&options, 0, sizeof options);
    options.size = sizeof options;
    return options;
}

/* A loader of a set, which may be freed before it. Its threads start with the first batch that is asked for. */
int32_t forebay_loader_new(const forebay_dataset *dataset, const forebay_loader_options *options, forebay_loader **loader);
/* The next batch: FOREBAY_OK; FOREBAY_END after the last epoch, however often it is asked; FOREBAY_TIMEOUT after timeout_ms
 * milliseconds (negative: never; 0: at once, or with FOREBAY_NO_PREFETCH after one: a batch is then made while it is waited for).
 *
 * Many threads may ask at once. Each batch goes to one of them, and batches go out in their order to the calls in theirs: one
 * that began after another has begun to wait is served after it. One that gives up (FOREBAY_TIMEOUT) leaves its place, and no
 * batch is lost. An error goes to one call, and ends the epoch for all. FOREBAY_END goes to all, those that wait too. */
int32_t forebay_loader_next(forebay_loader *loader, int64_t timeout_ms, forebay_batch **batch);
/* Goes on after FOREBAY_END, with the next epochs. One that is under way is left; calls that wait get batches of the new one. */
int32_t forebay_loader_start(forebay_loader *loader);
/* The same, with this epoch. */
int32_t forebay_loader_set_epoch(forebay_loader *loader, uint64_t epoch);
/* Gives no more batches: all calls of forebay_loader_next that wait return FOREBAY_END, within 50 ms, and so do later ones, until
 * forebay_loader_start, _set_epoch or _load. Batches that were given out can still be committed. A loader that other threads may
 * wait in is stopped before it is freed, and they are joined in between. */
int32_t forebay_loader_stop(forebay_loader *loader);
/* Batches of a whole epoch. */
int32_t forebay_loader_length(const forebay_loader *loader, uint64_t *length);
/* The epoch, and the positions of its order that all ranks have used. */
int32_t forebay_loader_position(const forebay_loader *loader, uint64_t *epoch, uint64_t *position);
/* Where the run is, to go on from with any number of ranks and threads. Ends with a NUL besides; freed by
 * forebay_free_string. */
int32_t forebay_loader_save(const forebay_loader *loader, char **state, size_t *len);
/* Goes on from a state. strict: the files have to be those it was saved for, or copies of them; 0: as many samples do. The
 * rest of its epoch counts as one of `epochs`. */
int32_t forebay_loader_load(forebay_loader *loader, const char *state, size_t len, int32_t strict);
/* Counts a batch, and those before it, as used (manual_commit), also where those are of earlier epochs. Batches of an epoch that
 * was left before its last one no longer count. */
int32_t forebay_loader_commit(forebay_loader *loader, const forebay_batch *batch);
/* What it did so far, as JSON: batches, samples, bytes and times, verdict, tiers, in_force. */
int32_t forebay_loader_stats(const forebay_loader *loader, char **json);
/* Frees it and ends its threads; batches and tensors stay. NULL is left alone. */
void forebay_loader_free(forebay_loader *loader);

/* ---- batches ---------------------------------------------------------------------------------------------------------- */

/* Fields: how many, their names (NULL where there is none; they stay as long as the batch), and which has a name. */
size_t forebay_batch_field_count(const forebay_batch *batch);
const char *forebay_batch_field_name(const forebay_batch *batch, size_t field);
int32_t forebay_batch_field_index(const forebay_batch *batch, const char *name, size_t *field);
/* A field as a tensor, samples along axis 0, in the memory of the batch: nothing is copied. The caller, or who it gives the
 * tensor to, calls its deleter once; the memory stays until then, also after the batch is freed. Samples of different lengths
 * lie end to end. Texts and times have no type in DLPack: FOREBAY_UNSUPPORTED. */
int32_t forebay_batch_tensor(const forebay_batch *batch, size_t field, struct DLManagedTensorVersioned **tensor);
/* The bytes of any field, as long as the batch: of texts, UTF-8 end to end. */
int32_t forebay_batch_bytes(const forebay_batch *batch, size_t field, const uint8_t **bytes, size_t *len);
/* Where samples of different lengths begin and end along the axis they are joined by, one more than there are samples; NULL
 * and 0 where all have one shape. They stay as long as the batch. */
int32_t forebay_batch_offsets(const forebay_batch *batch, size_t field, const int64_t **offsets, size_t *count);
/* Samples, padding included; their numbers, -1 for padding; a seed for each, that depends on the loader's seed, the epoch and
 * the sample alone (NULL for samples that were asked for by number). Both stay as long as the batch. */
size_t forebay_batch_sample_count(const forebay_batch *batch);
const int64_t *forebay_batch_samples(const forebay_batch *batch);
const uint64_t *forebay_batch_seeds(const forebay_batch *batch);
/* The epoch it belongs to, and its number there, on this rank, counted from where the run began. */
uint64_t forebay_batch_epoch(const forebay_batch *batch);
uint64_t forebay_batch_step(const forebay_batch *batch);
/* Samples that could not be read and are left out or replaced: JSON, [{"sample", "why"}]. */
int32_t forebay_batch_failed(const forebay_batch *batch, char **json);
/* Frees it; tensors of it stay. NULL is left alone. */
void forebay_batch_free(forebay_batch *batch);

/* ---- files ------------------------------------------------------------------------------------------------------------ */

typedef struct forebay_file forebay_file;

/* Opens one file, whatever its format, by path or URL. */
int32_t forebay_file_open(const char *path, forebay_file **file);
/* What is in it, as JSON: format, groups, variables[name, dtype, shape, chunks, filters, ...]. */
int32_t forebay_file_describe(const forebay_file *file, char **json);
/* A part of a variable, such as "0:10,:,3", or all of it (NULL), as a tensor whose memory is its own. A plain number keeps its
 * axis, with one element. */
int32_t forebay_file_read(const forebay_file *file, const char *variable, const char *selection,
                          struct DLManagedTensorVersioned **tensor);
/* Closes it; tensors stay. NULL is left alone. */
void forebay_file_free(forebay_file *file);

/* ---- bytes through tiers ---------------------------------------------------------------------------------------------- */

/* Reads as pread(2) does, through the tiers of the configuration (forebay.toml, FOREBAY_CONFIG, FOREBAY_TIERS), which the first
 * call opens for the process: bytes that were read, fewer than len only at the end of the file, or an error code below 0. */
int64_t forebay_pread(const char *path, void *buffer, size_t len, uint64_t offset);
/* What was read from where, as JSON; null without tiers. */
int32_t forebay_pread_stats(char **json);
/* Leaves the tiers. No other thread reads meanwhile; a later read opens them anew. */
void forebay_pread_close(void);

/* ---- the memory of all ranks ------------------------------------------------------------------------------------------ */

typedef struct forebay_store forebay_store;

/* Fills the memory of all ranks of the job (mpirun, srun, torchrun on one node; without a launcher, of this process alone) with
 * a set that each of them opened alike; each reads its share. width: ranks that hold all samples between them (0: all ranks).
 * data: how bytes of other hosts travel, "auto" (NULL), "mpi", "tcp" or "shm". Collective, as forebay_store_close is: every rank
 * calls it. An MPI that the program has initialised is used; otherwise it is found and initialised. */
int32_t forebay_store_fill(const forebay_dataset *dataset, uint32_t width, const char *data, forebay_store **store);
/* The number of this rank, and how many there are. */
int32_t forebay_store_rank(const forebay_store *store, size_t *rank, size_t *size);
/* The samples of these numbers, side by side, from whichever ranks hold them. */
int32_t forebay_store_get(const forebay_store *store, const uint64_t *numbers, size_t count, forebay_batch **batch);
/* A loader of the set, whose batches come from the memory of the ranks; its rank and world are those of the job where world is
 * 0. It is freed before the store is closed. */
int32_t forebay_store_loader(const forebay_store *store, const forebay_loader_options *options, forebay_loader **loader);
/* What was read so far, as JSON. */
int32_t forebay_store_stats(const forebay_store *store, char **json);
/* Gives the memory of all ranks back, and frees the handle, also where that fails. NULL is left alone. */
int32_t forebay_store_close(forebay_store *store);

/* ---- staged writes ---------------------------------------------------------------------------------------------------- */

typedef struct forebay_stage forebay_stage;
typedef struct forebay_stage_file forebay_stage_file;

#define FOREBAY_STAGED 0 /* on the fast disk with checksums: `forebay recover` can finish it after a crash */
#define FOREBAY_DURABLE 1 /* copied, verified and published at its destination */

/* Opens a staging area: a folder on a fast disk, "memory", or NULL for the one that is configured. Where there is none, writes
 * go straight to their destination. */
int32_t forebay_stage_open(const char *area, forebay_stage **stage);
/* A new file. Its destination stays as it is until the whole file takes its place. */
int32_t forebay_stage_create(const forebay_stage *stage, const char *destination, forebay_stage_file **file);
/* Writes len bytes at offset; the buffer may be used again at once. */
int32_t forebay_stage_write_at(forebay_stage_file *file, const void *bytes, size_t len, uint64_t offset);
/* Ends the writing: the file goes to its destination behind the program. */
int32_t forebay_stage_seal(forebay_stage_file *file);
/* Waits until a sealed file is FOREBAY_STAGED or FOREBAY_DURABLE: FOREBAY_OK, FOREBAY_TIMEOUT, or why it never will be. */
int32_t forebay_stage_wait(const forebay_stage_file *file, uint32_t milestone, int64_t timeout_ms);
/* Frees the handle. A file that was not sealed is given up. NULL is left alone. */
void forebay_stage_file_free(forebay_stage_file *file);
/* Waits until all sealed files are durable, and frees the area, also where that fails. NULL is left alone. */
int32_t forebay_stage_close(forebay_stage *stage);

#ifdef __cplusplus
}
#endif

#endif
